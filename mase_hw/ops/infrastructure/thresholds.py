"""Thresholds: `y = lowest + step * (bounds that x is above)`, the bounds of each channel its own.

Where the sign of a channel is negative, those count that `x` is not above: `y` falls with `x`. A
batch normalisation before a rounding to few bits is such a function (Umuroglu et al., "FINN: A
Framework for Fast, Scalable Binarized Neural Network Inference" (2017), arXiv:1612.07119, section
4.2.2); `merge_thresholds_transform_pass` finds it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import torch
from torch import Tensor

from mase_hw.arithmetic.fixed_point import fixed, is_fixed
from mase_hw.cells import Image, Netlist, NetlistBuilder, Port, RomSource
from mase_hw.cells.thresholds import Thresholds as ThresholdsCell
from mase_hw.formats import StreamField
from mase_hw.ops._base import (
    Apply,
    Attributes,
    Call,
    Example,
    Operator,
    Reference,
    example_values,
    unformatted,
)
from mase_hw.ops._interfaces import Elementwise, Rescaled
from mase_hw.ops._library import define
from mase_hw.ops._one_cell import fields, shortest_beats

# Bounds of an element, at most: a result of four bits.
MAX_BOUNDS = 15


def _counted(
    values: Tensor, bounds: Tensor, signs: Tensor, lowest: float, step: float = 1.0
) -> Tensor:
    above = (values.unsqueeze(-1) > bounds) ^ (signs < 0).unsqueeze(-1)
    return lowest + step * above.sum(-1).to(values.dtype)


define(
    "thresholds(Tensor self, Tensor bounds, Tensor signs, float lowest, float step) -> Tensor",
    _counted,
    opaque=True,
)


class Thresholds(Operator, Elementwise, Rescaled):
    """How many bounds an element is above."""

    name = "thresholds"
    targets = ("mase.thresholds.default",)
    operand_names: Mapping[str, str] = {
        "self": "data_in_0",
        "bounds": "bounds",
        "signs": "signs",
    }
    role = "thresholds"

    def problems(self, call: Call) -> list[str]:
        if found := unformatted(call):
            return found
        if not {"bounds", "signs"} <= set(call.constants):
            return ["bounds and signs must be constant"]
        if not is_fixed(call.operands["data_in_0"]):
            return [f"data_in_0 is {call.operands['data_in_0'].format}; it is compared as fixed"]
        if call.constants["bounds"].shape[-1] > MAX_BOUNDS:
            count = call.constants["bounds"].shape[-1]
            return [f"{count} bounds for an element; {MAX_BOUNDS} at most have hardware"]
        if _steps(call) is None:
            return [f"{call.result.format} does not hold all results a power of two of codes apart"]
        return []

    def in_units(self, call: Call, operands: Mapping[str, Tensor], unit: float) -> Tensor:
        limits = torch.nextafter(
            call.constants["bounds"].double(), torch.tensor(torch.inf).double()
        )
        steps = [
            math.ceil(Fraction(item) / Fraction(unit)) - 1 for item in limits.flatten().tolist()
        ]
        bounds = torch.tensor(steps, dtype=torch.float64).reshape(limits.shape)
        given = call.constants["signs"], call.attributes["lowest"], call.attributes["step"]
        result: Tensor = torch.ops.mase.thresholds.default(operands["data_in_0"], bounds, *given)
        return result

    def reference(self, call: Call) -> Reference:
        bounds, falling = _bounds(call), _falling(call)
        steps = _steps(call)
        assert steps is not None
        lowest, shift = steps

        def compute(codes: Tensor) -> Tensor:
            # One bound after another: a tensor of all would be as many times as large.
            count = torch.zeros_like(codes)
            for bound in bounds.unbind(-1):
                count += (codes > bound) ^ falling
            return lowest + (count << shift)

        return compute

    def hardware(self, call: Call) -> Netlist:
        bounds, falling = _bounds(call), _falling(call)
        count, falls = bounds.shape[-1], bool(falling.any())
        width = max(1, int(max(bounds.max(), -1 - bounds.min())).bit_length()) + 1
        steps = _steps(call)
        assert steps is not None
        cell = ThresholdsCell(*fields(call), count, width, falls, *steps, beats=call.result.beats)
        net = NetlistBuilder({"data_in_0": Port.of(call.operands["data_in_0"])})
        words, hold = call.once(
            f"bounds in beats, {call.result.parallelism} {call.result.order}",
            lambda: _words(call, bounds, falling),
        )
        port = Port((StreamField("", call.result.lanes, cell.word_bits),), len(words), packed=True)
        image = Image(port.width_bits, lambda: [cell.packed(word) for word in words.tolist()])
        memory = net.memory("bounds", RomSource(port, image, len(words), hold))
        return net.netlist(
            data_out_0=net.add(cell, "", data_in_0=net.input("data_in_0"), bounds=memory)
        )

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        return _counted(
            operands["data_in_0"],
            operands["bounds"],
            operands["signs"],
            arguments["lowest"],
            arguments["step"],
        )

    def examples(self) -> list[Example]:
        target = torch.ops.mase.thresholds.default
        bounds = example_values(1, 7, 3).sort(-1).values
        signs = example_values(1, 7, seed=1).sign()
        many = torch.linspace(-1.0, 1.0, 15).reshape(1, 1, 1, 15)
        one = torch.ones(1)
        return [
            (
                Apply(lambda x, b, s: target(x, b, s, 0.0, 1.0), bounds, signs),
                (example_values(3, 7),),
            ),
            (
                Apply(lambda x, b, s: target(x, b, s, 0.0, 1.0), one.reshape(1, 1) / 4, one),
                (example_values(3, 4),),
            ),
            (
                Apply(lambda x, b, s: target(x, b, s, 0.0, 0.25), many, one.reshape(1, 1, 1)),
                (example_values(3, 2, 4),),
            ),
        ]


def _bounds(call: Call) -> Tensor:
    """Return the bounds `[..., count]` in codes of the operand, which it is above or not."""
    data, values = fixed(call.operands["data_in_0"]), call.constants["bounds"].double()
    low, high = data.minimum_code, data.maximum_code
    return torch.floor(values * 2.0**data.frac_width).clamp(low - 1, high).to(torch.int64)


def _falling(call: Call) -> Tensor:
    """Bounds at which results fall, with as many dimensions as the operand."""
    return call.constants["signs"] < 0


def _steps(call: Call) -> tuple[int, int] | None:
    """Return the code of the lowest result, and the shift between one result and the next."""
    count = call.constants["bounds"].shape[-1]
    values = call.attributes["lowest"] + call.attributes["step"] * torch.arange(count + 1.0)
    result = call.result.quantized
    codes = result.encode(values.double())
    if not torch.equal(result.decode(codes), values.double()):
        return None
    distances = set(codes.diff().tolist())
    step = distances.pop()
    if distances or step < 1 or step & (step - 1):
        return None
    return int(codes[0]), step.bit_length() - 1


def _words(call: Call, bounds: Tensor, falling: Tensor) -> tuple[Tensor, int]:
    """Return the shortest memory, `[words, lanes, bounds and whether they fall]`, and its hold."""
    shape = call.result.shape
    columns = [*bounds.unbind(-1), falling.to(torch.int64)]
    beats = torch.stack([call.result.to_beats(item.broadcast_to(shape)) for item in columns], -1)
    words, hold = shortest_beats(beats.flatten(1))
    return words.reshape(-1, *beats.shape[1:]), hold
