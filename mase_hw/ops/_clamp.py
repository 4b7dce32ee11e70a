"""The base of functions `min(max(x, low), high)`, which need no table at any width.

Rounding and saturation are monotone, so that they commute with the bounds: where the result
saturates, the cast result is bounded by the cast bounds. Where it wraps, the operand's codes are
bounded, which needs bounds that are codes; others fall back to the table or the polynomial.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mase_hw.cells import Netlist
from mase_hw.cells.clamp_fixed import ClampFixed
from mase_hw.formats.fixed import Fixed
from mase_hw.ops._base import Call, Reference
from mase_hw.ops._elementwise import fields, is_all_fixed, one_cell
from mase_hw.ops._real_math import RealMath
from mase_hw.ops._unary import Attributes, Unary, fixed_formats


@dataclass(frozen=True)
class CodeBounds:
    """Bounds as codes, of the result when `on_result`, else of the operand."""

    low: int
    high: int
    on_result: bool


class Clamp(Unary):
    """A function `min(max(x, low), high)`; subclasses say the bounds."""

    @abstractmethod
    def bounds(self, attributes: Attributes) -> tuple[float, float]:
        """Return (low, high), infinite where there is none."""

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        """Return the bounded value."""
        return math.clip(x, *self.bounds(attributes))

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return the finite bounds."""
        return [bound for bound in self.bounds(attributes) if abs(bound) != float("inf")]

    def reference(self, call: Call) -> Reference:
        """Cast and bound, or what any function does."""
        found = self._code_bounds(call)
        if found is None:
            return super().reference(call)
        operand, result = fixed_formats(call)

        def evaluate(codes: Tensor) -> Tensor:
            if found.on_result:
                return result.from_fixed(codes, operand.frac_width).clamp(found.low, found.high)
            return result.from_fixed(codes.clamp(found.low, found.high), operand.frac_width)

        return evaluate

    def hardware(self, call: Call) -> Netlist:
        """Return the clamp; bounds are passed as signed 32-bit patterns."""
        found = self._code_bounds(call)
        if found is None:
            return super().hardware(call)
        low, high = _as_int32(found.low), _as_int32(found.high)
        cell = ClampFixed(*fields(call), low, high, found.on_result, beats=call.result.beats)
        return one_cell(call, cell)

    def _code_bounds(self, call: Call) -> CodeBounds | None:
        if not is_all_fixed(call):
            return None
        return call.once(
            "bounds", lambda: code_bounds(self.bounds(call.attributes), *fixed_formats(call))
        )


def code_bounds(bounds: tuple[float, float], operand: Fixed, result: Fixed) -> CodeBounds | None:
    """Return the bounds that make cast and clamp exact, or None when there are none."""
    low, high = bounds
    # As torch does: where the bounds are the wrong way round, the upper one is the value.
    low = min(low, high)
    if result.overflow == "saturate":
        codes = result.encode(torch.tensor([low, high], dtype=torch.float64)).tolist()
        return CodeBounds(codes[0], codes[1], on_result=True)
    scale = 2.0**operand.frac_width
    bounded = [max(operand.minimum_code, low * scale), min(operand.maximum_code, high * scale)]
    if any(code != int(code) for code in bounded) or bounded[0] > bounded[1]:
        return None
    return CodeBounds(int(bounded[0]), int(bounded[1]), on_result=False)


def _as_int32(code: int) -> int:
    return code - (1 << 32) if code >= 1 << 31 else code
