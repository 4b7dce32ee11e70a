"""Multipliers and shifts with which every reachable sum gets the code of the exact rational number.

A layer's sum `n` of integers stands for `n * ratio + offset` steps of its result, which the
definition rounds and bounds. Hardware computes `round((n * 2**fraction + bias) * m * 2**-s)`. Both
rise with `n`: they agree on all sums if they step from each code to the next behind the same sum.
For given `m` and `s` every such place bounds `bias` from both sides, so that whole numbers alone
decide whether there is a bias; `m` grows until there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from torch import Tensor

from mase_hw.arithmetic.requantize import shortened_products
from mase_hw.formats import Format
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import ScaledInteger

SHIFTS = range(1 << 7)
# Bits of a multiplier, of a sum with its fraction, and of the fraction.
MOST_BITS = 40
MOST_FRACTION, MOST_SUM_BITS = 12, 40
# Codes of a result that are tried one by one.
MOST_RESULT_BITS = 20
LARGEST_BIAS = 1 << (MOST_SUM_BITS - 3)
# Beyond all sums; up to which doubles hold an eighth; and what they may be off a whole number.
FARTHEST, FARTHEST_DOUBLE, DOUBTFUL = 1 << 61, 1 << 41, 2.0**-8
LOW_BITS = 20
# Steps of a result for all elements of a second operand, which are compared.
MOST_PAIRS, MOST_OFFSETS = 1 << 24, 1 << 12
FEWEST_BITS, BITS_AT_A_TIME = 18, 2
# Multipliers beside the nearest one that are tried.
AROUND = (0, 1, -1)


@dataclass(frozen=True)
class Sums:
    """The reachable sums of one result.

    Attributes:
        ratio: steps of the result for a unit of the sum, above 0.
        offset: steps of the result for a sum of 0.
        low: the least sum.
        high: the largest.
    """

    ratio: Fraction
    offset: Fraction
    low: int
    high: int


@dataclass(frozen=True)
class Requantization:
    """What makes codes of sums.

    Attributes:
        bits: of the largest multiplier.
        fraction: bits that sums are shifted to the left.
        multipliers: `(m, s)` of each result.
        biases: of each result, in shifted sums.
    """

    bits: int
    fraction: int
    multipliers: tuple[tuple[int, int], ...]
    biases: tuple[int, ...]


@dataclass(frozen=True)
class Steps:
    """Where a result goes from one code to the next, for every code but the largest.

    Attributes:
        places: int64 `[steps]`, twice the last number of the lower code, in steps from zero.
        inside: bool `[steps]`, whether that number itself has the lower code.
    """

    places: npt.NDArray[np.int64]
    inside: npt.NDArray[np.bool_]

    def last_wholes(self, factor: Fraction, offset: Fraction) -> npt.NDArray[np.int64]:
        """Return the last whole number before each step, at `place * factor - offset`.

        What exceeds `FARTHEST` is set to it. Doubles decide; exact numbers where they are too close
        to a whole number.
        """
        farthest = int(max(abs(int(self.places[0])), abs(int(self.places[-1])), 1) * factor)
        if farthest + abs(offset) > FARTHEST_DOUBLE:
            last_steps, doubtful = np.zeros(len(self.places), np.int64), range(len(self.places))
        else:
            near = self.places * float(factor) - float(offset)
            last_steps = np.floor(near).astype(np.int64)
            doubtful = np.flatnonzero(np.abs(near - np.rint(near)) < DOUBTFUL)  # type: ignore[assignment]
        for index in doubtful:
            exact = int(self.places[index]) * factor - offset
            last = exact.numerator // exact.denominator
            last -= exact.denominator == 1 and not self.inside[index]
            last_steps[index] = min(max(last, -FARTHEST), FARTHEST)
        return last_steps


def steps_of(result: Format) -> Steps:
    """Positions of the steps of a result, from the least code on."""
    assert isinstance(result, Fixed | ScaledInteger)
    if isinstance(result, ScaledInteger):
        (point,), (low, high), mode = result.zero_points, result.code_range, "nearest_even"
    else:
        point, low, high, mode = 0, result.minimum_code, result.maximum_code, result.rounding
    codes = np.arange(low - point, high - point, dtype=np.int64)
    if mode == "nearest_even":
        return Steps(2 * codes + 1, codes % 2 == 0)
    if mode == "nearest_up":
        return Steps(2 * codes + 1, np.zeros(len(codes), np.bool_))
    if mode == "floor":
        return Steps(2 * codes + 2, np.zeros(len(codes), np.bool_))
    return Steps(np.where(codes < 0, 2 * codes, 2 * codes + 2), codes < 0)


def exact_requantization(
    sums: Sequence[Sums], result: Format, bits: int = FEWEST_BITS
) -> Requantization | None:
    """Requantisation that gives every reachable sum its code, with the fewest bits of a product.

    Args:
        sums: of each result.
        result: format of all results.
        bits: of the narrowest multiplier.

    Returns:
        None where it takes more than `MOST_BITS`, or sums of more than `MOST_SUM_BITS`, or results
        of more than `MOST_RESULT_BITS`.
    """
    if result.bits_per_element > MOST_RESULT_BITS:
        return None
    steps = steps_of(result)
    lasts = [_last_sums(item, steps) for item in sums]
    width = max(max(-item.low, item.high).bit_length() + 1 for item in sums)
    best: Requantization | None = None
    for fraction in range(0, min(MOST_FRACTION, MOST_SUM_BITS - width) + 1, 2):
        most = MOST_BITS
        if best is not None:
            most = min(most, best.bits + best.fraction - fraction - 1)
        fitted = _with_fraction(sums, steps, lasts, fraction, bits, most)
        if fitted is not None:
            best = fitted
    return best


def _with_fraction(
    sums: Sequence[Sums],
    steps: Steps,
    lasts: Sequence[npt.NDArray[np.int64]],
    fraction: int,
    fewest: int,
    most: int,
) -> Requantization | None:
    largest = fewest
    multipliers, biases = [], []
    for item, last in zip(sums, lasts, strict=True):
        for bits in range(largest, most + 1, BITS_AT_A_TIME):
            fitted = _fitting(item, steps, last, fraction, bits)
            if fitted is not None:
                break
        else:
            return None
        largest = max(largest, bits)
        multipliers.append(fitted[:2])
        biases.append(fitted[2])
    return Requantization(largest, fraction, tuple(multipliers), tuple(biases))


def _last_sums(item: Sums, steps: Steps) -> npt.NDArray[np.int64]:
    return steps.last_wholes(1 / (2 * item.ratio), item.offset / item.ratio)


def _fitting(
    item: Sums, steps: Steps, lasts: npt.NDArray[np.int64], fraction: int, bits: int
) -> tuple[int, int, int] | None:
    """Return multiplier, shift and bias of so many bits; None where there are none."""
    ratio, far = item.ratio, abs(item.offset / item.ratio) * (1 << fraction)
    if far >= LARGEST_BIAS:
        # Sums that hardly move the result may move it more, where they pass no step.
        ratio *= 1 << (int(far) // LARGEST_BIAS).bit_length()
    exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > ratio
    shift = bits - 1 - exponent
    nearest = round(ratio * Fraction(2) ** shift)
    shift += fraction
    for around in AROUND:
        multiplier = nearest + around
        if multiplier.bit_length() > bits or multiplier < 1 or shift not in SHIFTS:
            continue
        wanted = round(item.offset / ratio * (1 << fraction))
        bias = _bias(item, steps, lasts, fraction, multiplier, shift, wanted)
        if bias is not None and abs(bias) < 2 * LARGEST_BIAS:
            return multiplier, shift, bias
    return None


def _bias(
    item: Sums,
    steps: Steps,
    lasts: npt.NDArray[np.int64],
    fraction: int,
    multiplier: int,
    shift: int,
    wanted: int,
) -> int | None:
    """Return the bias nearest to a wanted one with which all steps come behind their sums."""
    # The largest shifted sum, bias and all, that stays below each step.
    borders = steps.last_wholes(Fraction(1 << shift, 2 * multiplier), Fraction(0))
    below, above = lasts >= item.low, lasts < item.high
    most = borders[below] - (np.minimum(lasts[below], item.high) << fraction)
    least = borders[above] + 1 - (np.maximum(lasts[above] + 1, item.low) << fraction)
    low, high = max(least.tolist(), default=wanted), min(most.tolist(), default=wanted)
    if low > high:
        return None
    return min(max(wanted, low), high)


def rounded_products(sums: Tensor, multipliers: Tensor, shifts: Tensor, result: Format) -> Tensor:
    """Return the codes of `sums * multipliers * 2**-shifts`, whose products may exceed 64 bits.

    Args:
        sums: int64 of at most `MOST_SUM_BITS` bits.
        multipliers: int64 of at most `MOST_BITS` bits, broadcast over the sums.
        shifts: int64.
        result: a format whose values are whole steps.
    """
    exponents = LOW_BITS - shifts
    if bool((exponents > -2).any()):
        return result.from_scaled(sums * multipliers, (-shifts).expand(sums.shape))
    kept = shortened_products(sums, multipliers, LOW_BITS)
    return result.from_scaled(kept, exponents.expand(sums.shape))


@dataclass(frozen=True)
class Part:
    """A sum of steps of one operand, `n` times its ratio.

    Attributes:
        ratio: steps of the result for a step of the operand.
        low: the least sum.
        high: the largest.
    """

    ratio: Fraction
    low: int
    high: int


def exact_step_bits(
    parts: Sequence[Part], divisor: int, result: Format, fewest: int, most: int
) -> int | None:
    """Return the bits of multipliers with which sums of one or two parts get their exact codes.

    None where there are none, or where too many pairs of operands would have to be tried.

    Args:
        parts: what is added up.
        divisor: of the sum.
        result: format of the results.
        fewest: bits to begin with.
        most: bits to end with.
    """
    if not 1 <= len(parts) <= 2 or result.bits_per_element > MOST_RESULT_BITS:
        return None
    steps = steps_of(result)
    first, last = parts[0], parts[-1]
    others = range(last.low, last.high + 1) if len(parts) == 2 else range(1)
    if len(others) * len(steps.places) > MOST_PAIRS:
        return None
    exact = _lasts(first, [last.ratio * other for other in others], divisor, steps)
    for bits in range(fewest, most + 1):
        near = [dyadic_near(part.ratio, bits) for part in parts]
        rounded = Part(near[0], first.low, first.high)
        lasts = _lasts(rounded, [near[-1] * other for other in others], divisor, steps)
        if np.array_equal(lasts, exact):
            return bits
    return None


def same_steps(
    exact: Part,
    factor: Fraction,
    result: Format,
    offsets: Sequence[Fraction] = (Fraction(0),),
    stored: Sequence[Fraction] = (Fraction(0),),
) -> bool:
    """True if sums get the codes of their exact ratio and offsets by others.

    Args:
        exact: sums and their ratio.
        factor: in place of the ratio.
        result: format of the results.
        offsets: steps of the result that are added, of one element or another.
        stored: in place of the offsets.
    """
    if result.bits_per_element > MOST_RESULT_BITS or len(offsets) > MOST_OFFSETS:
        return False
    steps, near = steps_of(result), Part(factor, exact.low, exact.high)
    return np.array_equal(_lasts(exact, offsets, 1, steps), _lasts(near, stored, 1, steps))


def dyadic_near(ratio: Fraction, bits: int) -> Fraction:
    """Return the multiple of a power of two of so many bits that is nearest to a ratio."""
    exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > ratio
    unit = Fraction(2) ** (exponent - bits + 1)
    return round(ratio / unit) * unit


def _lasts(
    part: Part, offsets: Sequence[Fraction], divisor: int, steps: Steps
) -> npt.NDArray[np.int64]:
    """Return the last sum before each step, for each offset, within the reachable ones."""
    sums = [
        _last_sums(Sums(part.ratio / divisor, offset / divisor, 0, 0), steps) for offset in offsets
    ]
    return np.clip(np.stack(sums), part.low - 1, part.high)
