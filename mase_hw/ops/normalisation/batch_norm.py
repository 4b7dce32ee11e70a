"""Batch normalisation at inference, `y = x * scale + shift` per channel (Ioffe & Szegedy 2015).

`scale = gamma / sqrt(var + eps)` and `shift = beta - mean * scale` are constants, called `weight`
and `bias` in a configuration. The product and the sum are exact; the result is rounded once.
Folded into the layer before it where that is linear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from mase_hw.arithmetic.fixed_point import fixed, too_wide
from mase_hw.cells import Netlist, NetlistBuilder, Operation, Port
from mase_hw.cells.binary_fixed import BinaryFixed
from mase_hw.errors import UnsupportedError
from mase_hw.formats import Encoding
from mase_hw.formats.fixed import Fixed
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._base import Attributes, Call, Example, Operator, Reference, example_values
from mase_hw.ops._interfaces import Affine, Elementwise, Prepared
from mase_hw.ops._one_cell import constant_memory, fields


class BatchNorm(Operator, Elementwise, Prepared, Affine):
    """Affine map per channel, dimension 1 of the torch tensor."""

    merges = True
    name = "batch_norm"
    targets = ("aten.batch_norm.default",)
    operand_names: Mapping[str, str] = {
        "input": "data_in_0",
        "weight": "weight",
        "bias": "bias",
        "running_mean": "mean",
        "running_var": "variance",
    }

    def bind(self, call: Call) -> Call:
        """Reduce the four statistics to a scale and a shift.

        Raises:
            UnsupportedError: when they are not constant.
        """
        operands, constants = call.operands, call.constants
        data = operands["data_in_0"]
        rank = len(data.shape)
        if call.attributes.get("training") or not {"mean", "variance"} <= set(operands):
            raise UnsupportedError(
                "batch_norm takes mean and variance of the batch, which are not known before the "
                "data are: give the layer running statistics (track_running_stats=True)"
            )
        streams = sorted(set(operands) - set(constants) - {"data_in_0"})
        if streams:
            raise UnsupportedError(
                f"{streams[0]} of batch_norm is computed by the model; it must be constant"
            )
        folded = {
            key: value.reshape(1, -1, *[1] * (rank - 2))
            for key, value in self.prepare(constants, call.attributes).items()
        }
        specs = {
            key: TensorSpec(
                tuple(value.shape), data.dtype, operands[key].format if key in operands else None
            )
            for key, value in folded.items()
        }
        return replace(call, operands={"data_in_0": data, **specs}, constants=folded)

    def prepare(self, constants: Mapping[str, Tensor], arguments: Attributes) -> dict[str, Tensor]:
        scale = torch.rsqrt(constants["variance"] + arguments["eps"])
        if "weight" in constants:
            scale = scale * constants["weight"]
        shift = -constants["mean"] * scale
        return {"weight": scale, "bias": shift + constants.get("bias", 0.0)}

    def prepare_training(
        self,
        constants: Mapping[str, Tensor],
        arguments: Attributes,
        streams: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        data = streams["data_in_0"]
        others = [dim for dim in range(data.dim()) if dim != 1]
        variance, mean = torch.var_mean(data, others, correction=0)
        count = data.numel() // data.shape[1]
        with torch.no_grad():
            # The running variance is the unbiased one, as torch keeps it.
            unbiased = variance * (count / max(count - 1, 1))
            constants["mean"].lerp_(mean, arguments["momentum"])
            constants["variance"].lerp_(unbiased, arguments["momentum"])
        return self.prepare({**constants, "mean": mean, "variance": variance}, arguments)

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        data = operands["data_in_0"]
        shape = (1, -1, *[1] * (data.dim() - 2))
        return data * operands["weight"].reshape(shape) + operands["bias"].reshape(shape)

    def affine(self, call: Call) -> tuple[Tensor, Tensor] | None:
        return call.constants["weight"], call.constants["bias"]

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        formats = (
            {name: fixed(spec) for name, spec in call.operands.items()} if not problems else {}
        )
        return problems or too_wide(lambda **given: _exact(**given)[1], **formats)

    def reference(self, call: Call) -> Reference:
        fraction, _ = _exact(**{name: fixed(spec) for name, spec in call.operands.items()})
        data, weight = fixed(call.operands["data_in_0"]), fixed(call.operands["weight"])
        bias = fixed(call.operands["bias"])
        scale = call.constant_codes("weight") << (fraction - data.frac_width - weight.frac_width)
        shift = call.constant_codes("bias") << (fraction - bias.frac_width)
        result = call.result.quantized

        def compute(codes: Tensor) -> Tensor:
            return result.from_fixed(codes * scale + shift, fraction)

        return compute

    def hardware(self, call: Call) -> Netlist:
        """Return an exact product and a rounded sum; scale and shift come from ROMs."""
        (data, result, lanes), beats = fields(call), call.result.beats
        weight, bias = (call.operands[name].quantized.encoding for name in ("weight", "bias"))
        width = data.width + (not data.signed) + weight.width + (not weight.signed)
        exact = Encoding(width, fraction=data.fraction + weight.fraction)
        net = NetlistBuilder({"data_in_0": Port.of(call.operands["data_in_0"])})
        product = net.add(
            BinaryFixed(data, exact, lanes, weight, Operation.MULTIPLY, beats=beats),
            "product",
            data_in_0=net.input("data_in_0"),
            data_in_1=net.memory("weight", constant_memory(call, "weight")),
        )
        total = net.add(
            BinaryFixed(exact, result, lanes, bias, Operation.ADD, beats=beats),
            data_in_0=product,
            data_in_1=net.memory("bias", constant_memory(call, "bias")),
        )
        return net.netlist(data_out_0=total)

    def operations(self, call: Call) -> int:
        return 2 * call.result.elements

    def examples(self) -> list[Example]:
        return [
            (_example(7), (example_values(3, 7),)),
            (_example(3), (example_values(3, 3, 4),)),
        ]


def _example(channels: int) -> nn.Module:
    norm = nn.BatchNorm1d(channels).eval()
    with torch.no_grad():
        norm.weight.copy_(example_values(channels, seed=1))
        norm.bias.copy_(example_values(channels, seed=2))
        norm.running_mean.copy_(example_values(channels, seed=3))  # type: ignore[union-attr]
        norm.running_var.copy_(example_values(channels, seed=4).abs() + 0.5)  # type: ignore[union-attr]
    return norm


def _exact(data_in_0: Fixed, weight: Fixed, bias: Fixed) -> tuple[int, int]:
    """Return fraction bits and width of the exact result."""
    product = data_in_0.frac_width + weight.frac_width
    fraction = max(product, bias.frac_width)
    product_width = data_in_0.width + weight.width + 2 + fraction - product
    return fraction, max(product_width, bias.width + 1 + fraction - bias.frac_width) + 1
