"""Functions that give whole numbers: floor, ceiling, truncation, rounding.

The operand is rounded to a whole number as the function says, exactly, and that to the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Netlist, NetlistBuilder
from mase_hw.cells.cast_fixed import CastFixed
from mase_hw.formats import FIXED_POINT, Format
from mase_hw.formats.fixed import MIN_WIDTH_BITS, Fixed
from mase_hw.ops._base import (
    Apply,
    Call,
    Example,
    Operator,
    Reference,
    example,
    example_values,
    overloads,
    torch_target,
)
from mase_hw.ops._interfaces import Elementwise, Exact, Numeric, Rewritten


class _Step(Operator, Elementwise, Numeric, Exact):
    """A rounding to whole numbers.

    Args:
        name: of the operator.
        targets: torch operators of the default overload, and full names.
        rounding: how numbers are rounded, one of `mase_hw.formats.fixed.ROUNDING_MODES`.
        negates: whether it is the negative of a number that is rounded, and negated again.
    """

    families = FIXED_POINT
    of_few_bits = True
    jumps = True

    def __init__(self, name: str, targets: str, rounding: str, *, negates: bool = False) -> None:
        self.name, self.targets = name, overloads(targets)
        self.rounding, self.negates = rounding, negates

    def problems(self, call: Call) -> list[str]:
        if call.attributes.get("decimals"):
            return [f"it rounds to {call.attributes['decimals']} decimals; only 0 has hardware"]
        return super().problems(call)

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        return _whole(self, call)

    def reference(self, call: Call) -> Reference:
        data, whole, result = fixed(call.operands["data_in_0"]), _whole(self, call), call.result
        sign = -1 if self.negates else 1

        def compute(codes: Tensor) -> Tensor:
            rounded = whole.from_fixed(sign * codes, data.frac_width)
            return result.quantized.from_fixed(sign * rounded, whole.frac_width)

        return compute

    def hardware(self, call: Call) -> Netlist:
        data, whole, result = call.operands["data_in_0"], _whole(self, call), call.result
        net = NetlistBuilder(call.ports)
        lanes, beats = result.lanes, result.beats
        first = CastFixed(data.quantized.encoding, whole.encoding, lanes, self.negates, beats=beats)
        second = CastFixed(
            whole.encoding, result.quantized.encoding, lanes, self.negates, beats=beats
        )
        wire = net.add(first, "whole", data_in_0=net.input("data_in_0"))
        return net.netlist(data_out_0=net.add(second, data_in_0=wire))

    def examples(self) -> list[Example]:
        target: Any = torch_target(self.targets[0])
        return [example(lambda x: target(x * 3.0), (3, 11))]


def _whole(step: _Step, call: Call) -> Fixed:
    """Return the format of the whole numbers, which holds all of them."""
    data = fixed(call.operands["data_in_0"])
    bits = data.width - max(data.frac_width, 0) + 2
    fraction = min(data.frac_width, 0)
    return Fixed(max(bits, MIN_WIDTH_BITS), fraction, signed=True, rounding=step.rounding)


class Round(_Step, Rewritten):
    """The nearest whole number, of two the even one (torch.round)."""

    def __init__(self) -> None:
        super().__init__("round", "round round_ aten.round.decimals", "nearest_even")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        scale = 10.0 ** int(call.attributes.get("decimals", 0))
        if scale == 1.0:
            return None
        scaled = aten.mul.Tensor(operands["data_in_0"], scale)
        return [aten.mul.Tensor(aten.round.default(scaled), 1.0 / scale)]

    def examples(self) -> list[Example]:
        tenths = Apply(lambda x: torch.round(x, decimals=1))
        return [*super().examples(), (tenths, (example_values(2, 5),))]


STEPS = (
    _Step("floor", "floor floor_", "floor"),
    _Step("ceil", "ceil ceil_", "floor", negates=True),
    _Step("trunc", "trunc trunc_ fix", "toward_zero"),
)
