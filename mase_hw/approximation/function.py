"""What is known of a real function that hardware approximates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mase_hw.approximation._real_math import Real, RealMath
from mase_hw.approximation.rounding import RealFunction


@dataclass(frozen=True)
class Function:
    """A real function.

    Attributes:
        name: what messages call it.
        equation: its value, with the functions that suit an operand.
        knots: where, zero aside, it or its slope is not continuous.
        steep: the knots near which it may be steep.
        bounds: low and high where it is `min(max(x, low), high)`.
        quarters: quarter turns by which it leads the sine, where it is one.
    """

    name: str
    equation: RealFunction
    knots: tuple[float, ...] = ()
    steep: tuple[float, ...] = ()
    bounds: tuple[float, float] | None = None
    quarters: int | None = None

    def __call__(self, x: Real, math: RealMath) -> Any:
        """Return its value at a float64 tensor or one real of high precision."""
        return self.equation(x, math)
