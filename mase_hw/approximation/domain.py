"""Real functions: where they are defined, and their values elsewhere, one rule for every format.

Operands beyond an end of the domain give what the end itself gives, because an operand just
outside is in practice one that a rounding has put there. At a pole the result is an infinity of
the sign that is stated: the limit, from the right where the two sides differ, and the same for
zeros of both signs. Every format gives an infinity its code on that side: its end of the range,
also where finite results wrap, or its own infinity. So `log(0)` and `log(-1)` are the smallest
number of a fixed-point format, `1/0` the largest, `sqrt(-1)` zero. NaN, and a function that has
no limit at an infinite operand, give NaN as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from mase_hw.approximation._real_math import Real, RealMath
from mase_hw.approximation.rounding import RealFunction


@dataclass(frozen=True)
class Domain:
    """The reals from `low` to `high`, poles aside.

    Attributes:
        low: the smallest operand.
        high: the largest operand.
        poles: the infinity that a function has at an operand.

    Examples:
        >>> Domain(low=0.0, poles={0.0: -math.inf})  # of a logarithm
    """

    low: float = -inf
    high: float = inf
    poles: Mapping[float, float] = field(default_factory=dict)

    @property
    def knots(self) -> tuple[float, ...]:
        """The finite ends and the poles, near which a function may be steep."""
        ends = {end for end in (self.low, self.high) if abs(end) != inf}
        return tuple(sorted(ends | set(self.poles)))

    def extend(self, function: Callable[[Real], Real], x: Real, math: RealMath) -> Real:
        """Return `function` of `x`, on the whole line; it only sees operands at which it is finite.

        Args:
            function: the function, on its domain.
            x: a float64 tensor or one real of high precision.
            math: what suits `x`.
        """
        if not self.knots:
            return function(x)
        x = math.clip(x, self.low, self.high)
        inside = self._regular_operand()
        regular = x
        for pole in self.poles:
            regular = math.where(x == pole, inside, regular)
        result = function(regular)
        for pole, limit in self.poles.items():
            result = math.where(x == pole, limit, result)
        return result

    def _regular_operand(self) -> float:
        if self.low != -inf and self.high != inf:
            tries = len(self.poles) + 1
            steps = [
                self.low + (self.high - self.low) * n / (tries + 1) for n in range(1, tries + 1)
            ]
            return next(step for step in steps if step not in self.poles)
        if self.high != inf:
            return min([self.high, *self.poles]) - 1.0
        return max([self.low if self.low != -inf else 0.0, *self.poles]) + 1.0


EVERYWHERE = Domain()


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
