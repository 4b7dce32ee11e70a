"""Sine and cosine of any range: the phase modulo a turn, and one table of a quarter wave.

With `turn = 2**-frac_width / (2 * pi)`, the turns of one step of the operand, in integers

    p = (code * round(turn * 2**P)) mod 2**P,    q = p >> (P - Q),

so that `q` are the `Q` upper bits of the phase in parts of a turn. A `q` stands for the middle of
its interval, the phase `(q + 1/2) * 2**-Q`, which inverting bits mirrors at each quarter. Phases of
the second and the third quarter are mirrored onto the first and the fourth. The signed phase that
remains goes through quadratics on segments (`piecewise`); those of negative phases are the others'
negated. `P` and `Q` are the least for which errors of the phase are `PHASE_ERROR` of a step in all.
Where `P` ends at 64 bits they may be up to `MAX_ERROR / 2`, which keeps results within one step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from mase_hw.approximation._real_math import PRECISE, Real, RealMath
from mase_hw.approximation.domain import Function
from mase_hw.approximation.piecewise import MAX_ERROR, Piecewise, Region, fit
from mase_hw.errors import UnsupportedError
from mase_hw.formats.fixed import Fixed

PHASE_ERROR = 2.0**-3
MAX_PHASE_BITS = 64
_MIN_PLACE_BITS = 8


@dataclass(frozen=True)
class Phase:
    """The phase of codes, as a signed part of a turn within a quarter.

    Attributes:
        rate: turns of a step of the operand in units of `2**-bits`, modulo a turn.
        bits: of the product.
        place_bits: upper ones of them that are looked at.
        quarters: quarter turns that are added.
    """

    rate: int
    bits: int
    place_bits: int
    quarters: int

    def evaluate(self, codes: Tensor) -> Tensor:
        """Return codes of `place_bits - 1` bits, in parts `2**-place_bits` of a turn."""
        # Products wrap at 64 bits, of which the lower ones are right.
        rate = self.rate - (1 << 64) if self.rate >= 1 << 63 else self.rate
        place = (codes * rate) >> (self.bits - self.place_bits)
        place += self.quarters << (self.place_bits - 2)
        mirrored = ((place >> (self.place_bits - 1)) ^ (place >> (self.place_bits - 2))) & 1
        half = 1 << (self.place_bits - 2)
        return (((place ^ -mirrored) + half) & (2 * half - 1)) - half


@dataclass(frozen=True)
class Wave:
    """A sine that leads by some quarters of a turn.

    Attributes:
        phase: from the operand's codes to phases.
        quarter: the sine of phases, odd.
    """

    phase: Phase
    quarter: Piecewise

    def evaluate(self, codes: Tensor) -> Tensor:
        """Return the result codes of operand codes."""
        return self.quarter.evaluate(self.phase.evaluate(codes))


def exceeds_a_turn(operand: Fixed) -> bool:
    """Return true if the values of a format span more than `2 * pi`."""
    return (operand.maximum_code - operand.minimum_code) * 2.0**-operand.frac_width > 2 * math.pi


def fit_wave(function: Function, operand: Fixed, result: Fixed) -> Wave:
    """Return the smallest phase and quarter wave.

    Args:
        function: with `quarters`.
        operand: format of its operand.
        result: format of its result.

    Raises:
        UnsupportedError: when the phase would need more than 64 bits, or the quarter too many
            segments.
    """
    # Radians that are one step of the result; at the steepest, as many steps are lost.
    step = 2.0**-result.frac_width / (2 * math.pi)
    codes = max(-operand.minimum_code, operand.maximum_code)
    place_bits = max(math.ceil(-math.log2(PHASE_ERROR * step)), _MIN_PLACE_BITS)
    needed = math.ceil(math.log2(codes) - math.log2(PHASE_ERROR * step))
    bits = max(place_bits, min(needed, MAX_PHASE_BITS))
    lost = (codes * 2.0 ** -(bits + 1) + 2.0 ** -(place_bits + 1)) / step
    name = f"{function.name} from {operand} to {result}"
    if bits > MAX_PHASE_BITS or lost > MAX_ERROR / 2:
        raise UnsupportedError(
            f"{name} needs a phase of {max(needed, bits)} bits, at most {MAX_PHASE_BITS}: "
            "use an operand or a result of fewer bits"
        )
    exact = PRECISE.context.ldexp(1, bits - operand.frac_width) / (2 * PRECISE.context.pi)
    rate = int(PRECISE.context.nint(exact)) % (1 << bits)
    middle = 2.0 ** -(place_bits + 1)

    def sine(x: Real, real: RealMath) -> Real:
        return real.sin((x + middle) * (2 * real.pi))

    # Results of both signs are made of it, so that it may not saturate at the result's ends.
    both = Fixed(max(result.frac_width, 0) + 2, result.frac_width)
    quarter = fit(sine, (), Fixed(place_bits - 2, place_bits, signed=False), both, function.name)
    place = Fixed(place_bits - 1, place_bits)
    regions = (
        Region(place.minimum_code, -1, upward=False),
        Region(0, place.maximum_code, upward=True),
    )
    odd = replace(quarter, operand=place, result=result, regions=regions, bases=(0, 0), odd=True)
    return Wave(Phase(rate, bits, place_bits, function.quarters or 0), odd)
