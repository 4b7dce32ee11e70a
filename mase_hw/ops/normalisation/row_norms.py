"""Normalisations of rows.

Layer normalisation is `y = (x - mean) / sqrt(variance + eps) * weight + bias` (arXiv:1607.06450),
root mean square normalisation `y = x / sqrt(mean x^2 + eps) * weight` (arXiv:1910.07467). Sums are
exact, and the result is rounded once: see `mase_hw/approximation/row_norm.py` for the integers. The
result is less than one step from the exact one, or one and a half where it is rounded down or
towards zero.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from math import inf, prod
from typing import ClassVar

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.approximation.row_norm import MOST_ROOT_FRACTION
from mase_hw.approximation.row_norm import RowNorm as Arithmetic
from mase_hw.arithmetic.carriers import fixed_of
from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Image, Netlist
from mase_hw.cells.row_norm import RowNorm as RowNormCell
from mase_hw.formats import Encoding, Format
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._base import Apply, Call, Example, Reference, example, example_values
from mase_hw.ops._composite import composition
from mase_hw.ops._interfaces import (
    ANY_NUMBER,
    Exact,
    Gained,
    Normalizing,
    Recognized,
    Rescaled,
    Rewritten,
    Spelling,
)
from mase_hw.ops._library import define
from mase_hw.ops.reductions._reduce import Rows


class RowNorm(Rows, Gained, Normalizing, Exact, Rewritten, Rescaled):
    """A normalisation over the last dimension, `normalized_shape`, with constant weights.

    Attributes:
        centred: whether the mean is subtracted.
    """

    exact_everywhere = False
    centred: ClassVar[bool]

    def dim(self, call: Call) -> int:
        return len(call.operands["data_in_0"].shape) - 1

    @abstractmethod
    def epsilon(self, call: Call) -> float:
        """Constant that is added to the mean square."""

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        streams = [name for name in call.streams if name != "data_in_0"]
        if streams:
            problems.append(f"its {streams[0]} is computed by the model; it must be constant")
        if not 0 <= self.epsilon(call) < inf:
            problems.append(f"its eps is {self.epsilon(call)}; allowed is a finite number from 0")
        return problems or self._arithmetic(call).problems

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        size = call.attributes.get("normalized_shape", ())
        if len(size) < 2:
            return None
        shape = call.result.shape
        flat, row = [-1, *shape[1 : len(shape) - len(size)], prod(size)], [prod(size)]
        reshape = aten.reshape.default
        flattened = {
            name: reshape(value, flat if name == "data_in_0" else row)
            for name, value in operands.items()
        }
        result = self.normalize(flattened, row, self.epsilon(call))
        return [reshape(result, [-1, *shape[1:]])]

    @abstractmethod
    def normalize(self, operands: Mapping[str, Tensor], size: list[int], epsilon: float) -> Tensor:
        """Return the call of torch's operator on other operands."""

    def in_units(self, call: Call, operands: Mapping[str, Tensor], unit: float) -> Tensor:
        return self.normalize(operands, [call.result.shape[-1]], self.epsilon(call) / unit**2)

    def reference(self, call: Call) -> Reference:
        arithmetic = self._arithmetic(call)
        codes = {name: call.constant_codes(name) for name in call.constants}
        return lambda data: arithmetic.evaluate(data, codes.get("weight"), codes.get("bias"))

    def hardware(self, call: Call) -> Netlist:
        data, arithmetic = call.operands["data_in_0"], self._arithmetic(call)
        root = arithmetic.root
        weight, bias = (
            call.operands[name].quantized.encoding if name in call.constants else Encoding(1)
            for name in ("weight", "bias")
        )
        cell = RowNormCell(
            data.quantized.encoding,
            call.result.quantized.encoding,
            weight,
            bias,
            bool(call.constants),
            self.centred,
            data.lanes,
            arithmetic.size,
            arithmetic.below_bits,
            arithmetic.constant >> 31,
            arithmetic.constant & ((1 << 31) - 1),
            arithmetic.square_width,
            root.fraction,
            root.index_bits,
            root.has_step,
            arithmetic.term_fraction,
            arithmetic.term_width,
            Image(root.word_fraction + 1, lambda: root.words),
            _weights(call, (weight.width, bias.width)),
            data.beats,
        )
        return Netlist.single(call.ports, cell)

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        """Format that is less than a step off, a sixteenth of the least step of the result's.

        It has fewer fraction bits where its root has not as many.
        """
        scales = {
            name: fixed(call.operands[name])
            for name in ("weight", "bias")
            if name in call.constants
        }
        octaves = (call.result.shape[-1].bit_length() + 1) // 2
        if "weight" in scales:
            octaves += scales["weight"].width - scales["weight"].frac_width
        if "bias" in scales:
            octaves = 1 + max(octaves, scales["bias"].width - scales["bias"].frac_width)
        places = min(fraction + 3, MOST_ROOT_FRACTION - 3 - octaves)
        return fixed_of(1 + octaves + places, places)

    def operations(self, call: Call) -> int:
        return 6 * call.result.elements

    def _arithmetic(self, call: Call) -> Arithmetic:
        data, constants = call.operands["data_in_0"], call.constants
        weight, bias = (
            fixed(call.operands[name]) if name in constants else None for name in ("weight", "bias")
        )
        return call.once(
            "arithmetic",
            lambda: Arithmetic(
                fixed(data),
                fixed(call.result),
                data.shape[-1],
                self.epsilon(call),
                self.centred,
                weight,
                bias,
            ),
        )


def _weights(call: Call, widths: Sequence[int]) -> Image:
    """Return the memory of weights and biases, a word for each beat of a row."""
    lanes, size = call.operands["data_in_0"].lanes, call.result.shape[-1]
    row = TensorSpec((1, size)).with_parallelism(1, lanes)

    def words() -> list[int]:
        lane_bits, words = sum(widths), [0] * row.beats
        for place, (name, width) in enumerate(zip(("weight", "bias"), widths, strict=True)):
            if name not in call.constants:
                continue
            codes: Tensor = call.constant_codes(name).reshape(1, size)
            for beat, lane_codes in enumerate(row.to_beats(codes).tolist()):
                for lane, code in enumerate(lane_codes):
                    bits = code & ((1 << width) - 1)
                    words[beat] |= bits << (lane * lane_bits + place * widths[0])
        return words

    return Image(lanes * sum(widths), words)


class LayerNorm(RowNorm):
    """Elements of the last dimensions over their standard deviation, around their mean."""

    name = "layer_norm"
    targets = ("aten.layer_norm.default",)
    centred = True

    def epsilon(self, call: Call) -> float:
        return float(call.attributes.get("eps", 1e-5))

    def normalize(self, operands: Mapping[str, Tensor], size: list[int], epsilon: float) -> Tensor:
        given = [operands.get(name) for name in ("weight", "bias")]
        return aten.layer_norm.default(operands["data_in_0"], size, *given, epsilon)

    def examples(self) -> list[Example]:
        norm = nn.LayerNorm(7)
        with torch.no_grad():
            norm.weight.copy_(example_values(7, seed=1))
            norm.bias.copy_(example_values(7, seed=2))
        return [
            (norm, (example_values(3, 2, 7),)),
            example(nn.LayerNorm(4, elementwise_affine=False), (3, 4)),
            example(nn.LayerNorm((3, 2), bias=False), (3, 2, 3, 2)),
        ]


def _normalized(values: Tensor, weight: Tensor | None = None, *, eps: float) -> Tensor:
    return torch.nn.functional.rms_norm(values, values.shape[-1:], weight, eps)


define("rms_norm(Tensor self, Tensor? weight=None, *, float eps) -> Tensor", _normalized)


class RMSNorm(RowNorm, Recognized):
    """Elements of the last dimensions over their root mean square."""

    name = "rms_norm"
    targets = ("mase.rms_norm.default", "aten.rms_norm.default")
    centred = False

    def epsilon(self, call: Call) -> float:
        given = call.attributes.get("eps")
        if given is not None:
            return float(given)
        dtype: torch.dtype = getattr(torch, call.operands["data_in_0"].dtype)
        return torch.finfo(dtype).eps

    def normalize(self, operands: Mapping[str, Tensor], size: list[int], epsilon: float) -> Tensor:
        return aten.rms_norm.default(operands["data_in_0"], size, operands.get("weight"), epsilon)

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        mean = (x**2).mean(-1, keepdim=True) + ANY_NUMBER
        for result in (x * torch.rsqrt(mean), x / torch.sqrt(mean), x * mean ** (-0.5)):
            yield result, {"eps": ANY_NUMBER}

    def examples(self) -> list[Example]:
        norm = nn.RMSNorm(7, eps=1e-5)
        with torch.no_grad():
            norm.weight.copy_(example_values(7, seed=1))
        return [
            (norm, (example_values(3, 2, 7),)),
            example(nn.RMSNorm(4, elementwise_affine=False), (3, 4)),
            example(
                Apply(
                    lambda x, w: w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
                    example_values(5, seed=1),
                ),
                (3, 2, 5),
            ),
        ]


def _grouped(call: Call, groups: int, data: Tensor, *factors: Tensor) -> Tensor:
    """Return the normalisation of groups of channels, with a weight and a bias for each channel."""
    shape, operands = call.operands["data_in_0"].shape, list(call.operands)[1:]
    size = prod(shape[1:]) // groups
    rows = aten.reshape.default(data, [-1, groups, size])
    rows = aten.layer_norm.default(rows, [size], None, None, float(call.attributes["eps"]))
    result = aten.reshape.default(rows, [-1, *shape[1:]])
    column = [shape[1], *(1 for _ in shape[2:])]
    for name, factor in zip(operands, factors, strict=True):
        if name in ("weight", "bias"):
            combine = aten.mul.Tensor if name == "weight" else aten.add.Tensor
            result = combine(result, aten.reshape.default(factor, column))
    return result


def _group_norms() -> list[Example]:
    norm = nn.GroupNorm(2, 4)
    with torch.no_grad():
        norm.weight.copy_(0.5 + 0.5 * torch.rand_like(norm.weight))
        norm.bias.copy_(example_values(4, seed=2))
    return [
        example(norm, (3, 4, 3)),
        example(nn.GroupNorm(1, 2, affine=False), (3, 2, 2, 2)),
    ]


@composition("aten.group_norm.default", examples=_group_norms)
def group_norm(call: Call, data: Tensor, *factors: Tensor) -> Tensor:
    """Group normalisation (arXiv:1803.08494): layer normalisation of groups of channels."""
    return _grouped(call, int(call.attributes["num_groups"]), data, *factors)


@composition(
    "aten.instance_norm.default",
    examples=lambda: [
        example(nn.InstanceNorm1d(3), (3, 3, 5)),
        example(nn.InstanceNorm1d(3, track_running_stats=True).eval(), (3, 3, 4)),
    ],
)
def instance_norm(call: Call, data: Tensor, *factors: Tensor) -> Tensor:
    """Instance normalisation (arXiv:1607.08022): every channel of every inference by itself.

    With the statistics of the inference a group normalisation of one channel a group, with those of
    training a batch normalisation.
    """
    if call.attributes["use_input_stats"]:
        return _grouped(call, call.operands["data_in_0"].shape[1], data, *factors)
    operands = dict(zip(call.operands, (data, *factors), strict=True))
    names = ("data_in_0", "weight", "bias", "running_mean", "running_var")
    statistics = [operands.get(name) for name in names]
    return aten.batch_norm.default(*statistics, False, 0.0, float(call.attributes["eps"]), False)
