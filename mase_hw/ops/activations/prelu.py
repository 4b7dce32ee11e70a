"""Parametric rectifier: `x` if `x > 0`, else `weight * x` (`torch.nn.PReLU`; arXiv:1502.01852).

The weight is a constant in its own format: one slope, or one for each channel (dimension 1 of the
tensor). Products are exact; the result is rounded once.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Netlist
from mase_hw.cells.prelu_fixed import PreluFixed
from mase_hw.errors import UnsupportedError
from mase_hw.formats.fixed import Fixed
from mase_hw.ops._base import Apply, Call, Example, Operator, Reference, example, example_values
from mase_hw.ops._interfaces import Elementwise
from mase_hw.ops._one_cell import fields, one_cell


class PReLU(Operator, Elementwise):
    """Parametric rectifier: `x` if `x > 0`, else `weight * x`."""

    name = "prelu"
    targets = ("aten.prelu.default",)

    def bind(self, call: Call) -> Call:
        """Broadcast the slopes over the operand's shape, so that they are cut into equal beats."""
        shape, constants = call.operands["data_in_0"].shape, dict(call.constants)
        weight = replace(call.operands["weight"], shape=shape)
        if "weight" in constants:
            constants["weight"] = _broadcast(constants["weight"], shape)
        return replace(call, operands={**call.operands, "weight": weight}, constants=constants)

    def reference(self, call: Call) -> Reference:
        operand, weight, result = _formats(call)
        # The slope does not vary along dimension 0, where inferences are stacked.
        slopes = call.constant_codes("weight")
        slopes = slopes[:1] if slopes.dim() else slopes

        def evaluate(codes: Tensor) -> Tensor:
            scaled = result.from_fixed(codes * slopes, operand.frac_width + weight.frac_width)
            return torch.where(codes < 0, scaled, result.from_fixed(codes, operand.frac_width))

        return evaluate

    def hardware(self, call: Call) -> Netlist:
        weight = call.operands["weight"].quantized.encoding
        return one_cell(call, PreluFixed(*fields(call), weight, beats=call.result.beats))

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if "weight" not in call.constants:
            problems.append("weight is not a constant: prelu has hardware for constant slopes")
        return problems

    def examples(self) -> list[Example]:
        return [
            example(nn.PReLU(), (3, 7)),
            example(Apply(torch.prelu, example_values(4)), (3, 4, 5)),
        ]


def _broadcast(slopes: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tuple(slopes.shape) == tuple(shape):
        return slopes
    channels = slopes.numel()
    if channels != 1 and (len(shape) < 2 or shape[1] != channels):
        raise UnsupportedError(
            f"prelu has {channels} slopes for a tensor of shape {list(shape)}; "
            "allowed: one, or as many as dimension 1 has elements"
        )
    aligned = [1] * len(shape)
    if channels != 1:
        aligned[1] = channels
    return slopes.reshape(aligned).expand(shape)


def _formats(call: Call) -> tuple[Fixed, Fixed, Fixed]:
    return fixed(call.operands["data_in_0"]), fixed(call.operands["weight"]), fixed(call.result)
