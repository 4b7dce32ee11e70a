"""What sums, products and casts in fixed point are made of: `rtl/arithmetic` and `rtl/formats`."""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.cells._parts import (
    NOTHING,
    Adder,
    Compare,
    Gates,
    Mux,
    Parts,
    Product,
    Register,
    Rounding,
    Saturation,
)
from mase_hw.formats import Encoding, Overflow
from mase_hw.formats import Rounding as Mode


@dataclass(frozen=True)
class Rounded:
    """A rounded number that is not yet bounded.

    Attributes:
        parts: what rounds it.
        bits: that differ from its sign, and the sign; the others are copies of it.
        width: all bits.
        nonnegative: whether its sign is known to be zero.
        zeros: bits at its end that are known to be zero.
    """

    parts: Parts
    bits: int
    width: int
    nonnegative: bool = False
    zeros: int = 0

    @property
    def stored(self) -> int:
        """Bits of a register of it."""
        return self.bits - self.nonnegative - self.zeros


def rounded_width(width: int, fraction: int, result: Encoding) -> int:
    """Return `rounded_width` of `rtl/mase_pkg.sv`."""
    return max(width + 1 + max(result.fraction - fraction, 0), result.width + 1)


def rounded(width: int, fraction: int, result: Encoding, *, unsigned: bool = False) -> Rounded:
    """Return `mase_fixed_round`.

    Args:
        width: bits of the number that is rounded, in two's complement.
        fraction: its fraction bits.
        result: encoding of the result.
        unsigned: whether its sign is a zero.
    """
    shift = fraction - result.fraction
    whole = rounded_width(width, fraction, result)
    if shift <= 0:
        return Rounded(NOTHING, width - shift, whole, unsigned, -shift)
    kept = max(width - shift, 1)
    if result.rounding is Mode.FLOOR:
        return Rounded(NOTHING, kept, whole, unsigned and width > shift)
    parts = Parts.of(Rounding(kept + 1, shift))
    return Rounded(parts, kept + 1, whole, unsigned)


def bounded(number: Rounded, result: Encoding) -> Parts:
    """Return `mase_fixed_bound` of a rounded number, and the register of the result."""
    stored = min(number.stored, result.width)
    if result.overflow is Overflow.WRAP:
        return Parts.of(Register(stored))
    above = number.bits - number.nonnegative - (result.width - result.signed)
    above -= result.signed and not number.nonnegative
    if result.signed and above <= 0:
        return Parts.of(Register(stored))
    if not result.signed and above <= 0:
        return Parts.of(Register(stored))
    # What was shifted in is all ones or all zeros, and the sign of what has none stays zero.
    alike = max(min(number.zeros, result.width) - 1 - result.symmetric, 0)
    bits = result.width - alike - (result.signed and number.nonnegative)
    return Parts.of(Saturation(bits, above), Register(bits))


def cast(
    width: int, fraction: int, result: Encoding, *, unsigned: bool = False, before: int = 0
) -> Parts:
    """Return a rounding, a bound, and a register behind each.

    Args:
        width: bits of the number that is rounded, in two's complement.
        fraction: its fraction bits.
        result: encoding of the result.
        unsigned: whether its sign is a zero.
        before: registers of the number that nothing holds, and that nobody else counts.
    """
    number = rounded(width, fraction, result, unsigned=unsigned)
    ends = bounded(number, result)
    plain = not number.parts.items and len(ends.items) == 1
    if plain:
        # Nothing happens from register to register.
        lost = max(number.stored - result.width, 0)
        return Parts.of(Register(number.stored - lost, 2 + before), Register(lost, before))
    return Parts.of(number.parts, Register(width, before), Register(number.stored), ends)


def comparisons(result: Encoding, low: int, high: int) -> int:
    """Return how many bounds of `mase_fixed_clip` codes are compared with.

    An end of the range needs nothing, and zero is told by the sign.
    """
    bottom, top, mask = _bounds(result, low, high)
    return (bottom > 0 and not (result.signed and not low & mask)) + (top != mask)


def _bounds(result: Encoding, low: int, high: int) -> tuple[int, int, int]:
    """Return the bounds in the order of unsigned numbers, and the largest one."""
    width, mask = result.width, (1 << result.width) - 1
    flip = (1 << (width - 1)) if result.signed else 0
    return (low & mask) ^ flip, (high & mask) ^ flip, mask


def clip(result: Encoding, low: int, high: int, *, shared: bool = False) -> Parts:
    """Return `mase_fixed_clip`, with a register behind comparisons.

    Args:
        result: encoding of the codes.
        low: the lower bound.
        high: the upper one.
        shared: whether the tables of a saturation choose the bound too.
    """
    width, compared = result.width, comparisons(result, low, high)
    bottom, top, mask = _bounds(result, low, high)
    parts = Parts.of(
        (Compare(width, constant=True), compared), Register((width + compared) * (compared > 0))
    )
    # A zero is chosen by the reset of a register.
    chosen = top != mask or (bottom and low & mask)
    return parts + (Parts.of(Mux(2, width)) if chosen and not shared else NOTHING)


def tree(lanes: int, width: int, *, grows: bool = True) -> Parts:
    """Return a tree of adders with a register behind each.

    Args:
        lanes: numbers that it adds.
        width: their bits.
        grows: whether sums have a bit more at each level.
    """
    parts, inputs = NOTHING, lanes
    while inputs > 1:
        out = width + grows
        pairs, single = divmod(inputs, 2)
        parts += Parts.of((Adder(out, full=True), pairs), (Register(out), pairs))
        # A number without a partner has a copy of its sign on top.
        parts += Parts.of((Register(width), single))
        inputs, width = pairs + single, out
    return parts


def dot_product(lanes: int, data: int, weight: int) -> Parts:
    """Return `mase_dot_product` of signed operands of so many bits."""
    width = data + weight
    products = Parts.of((Product(data, weight), lanes), (Register(width), lanes))
    return products + tree(lanes, width)


def choice(bits: int) -> Parts:
    """Return gates that a bit opens for a word of `bits`."""
    return Parts.of(Gates(bits))
