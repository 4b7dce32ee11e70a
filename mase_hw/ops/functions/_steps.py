"""The base of functions that give whole numbers: floor, ceiling, truncation, rounding.

The operand is rounded to a whole number as the function says, exactly, and that to the result.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Netlist, NetlistBuilder
from mase_hw.cells.cast_fixed import CastFixed
from mase_hw.formats import FIXED_POINT
from mase_hw.formats.fixed import MIN_WIDTH_BITS, Fixed
from mase_hw.ops._base import Call, Example, Operator, Reference, example, overloads, torch_target
from mase_hw.ops._tiling import Elementwise


class Step(Operator, Elementwise):
    """A rounding to whole numbers.

    Args:
        name: of the operator.
        targets: torch operators of the default overload, and full names.
        rounding: how numbers are rounded, one of `mase_hw.formats.fixed.ROUNDING_MODES`.
        negates: whether it is the negative of a number that is rounded, and negated again.
    """

    families = FIXED_POINT

    def __init__(self, name: str, targets: str, rounding: str, *, negates: bool = False) -> None:
        self.name, self.targets = name, overloads(targets)
        self.rounding, self.negates = rounding, negates

    def problems(self, call: Call) -> list[str]:
        if call.attributes.get("decimals"):
            return [f"it rounds to {call.attributes['decimals']} decimals; only 0 has hardware"]
        return super().problems(call)

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


def _whole(step: Step, call: Call) -> Fixed:
    """Return the format of the whole numbers, which holds all of them."""
    data = fixed(call.operands["data_in_0"])
    bits = data.width - max(data.frac_width, 0) + 2
    fraction = min(data.frac_width, 0)
    return Fixed(max(bits, MIN_WIDTH_BITS), fraction, signed=True, rounding=step.rounding)
