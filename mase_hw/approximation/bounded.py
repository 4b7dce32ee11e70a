"""Functions `min(max(x, low), high)` in fixed point, which need no table at any width.

Rounding and saturation are monotone, so that they commute with the bounds: where the result
saturates, the cast result is bounded by the cast bounds. Where it wraps, the operand's codes are
bounded, which needs bounds that are codes; others fall back to the table or the polynomial.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.formats.fixed import Fixed


@dataclass(frozen=True)
class Bounded:
    """Bounds as codes.

    Attributes:
        low: the smallest code.
        high: the largest code.
        on_result: whether they are codes of the result, else of the operand.
    """

    operand: Fixed
    result: Fixed
    low: int
    high: int
    on_result: bool

    @classmethod
    def between(cls, bounds: tuple[float, float], operand: Fixed, result: Fixed) -> Bounded | None:
        """Cast and bounds that are exact for these formats, or None."""
        low, high = bounds
        # As torch does: where the bounds are the wrong way round, the upper one is the value.
        low = min(low, high)
        if result.overflow == "saturate":
            codes = result.encode(torch.tensor([low, high], dtype=torch.float64)).tolist()
            return cls(operand, result, codes[0], codes[1], on_result=True)
        scale = 2.0**operand.frac_width
        bounded = [max(operand.minimum_code, low * scale), min(operand.maximum_code, high * scale)]
        if any(code != int(code) for code in bounded) or bounded[0] > bounded[1]:
            return None
        return cls(operand, result, int(bounded[0]), int(bounded[1]), on_result=False)

    def evaluate(self, codes: Tensor) -> Tensor:
        """Return the result codes of operand codes."""
        fraction = self.operand.frac_width
        if self.on_result:
            return self.result.from_fixed(codes, fraction).clamp(self.low, self.high)
        return self.result.from_fixed(codes.clamp(self.low, self.high), fraction)
