"""What sums, products and casts in fixed point are made of: `rtl/arithmetic` and `rtl/formats`."""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.cells._components import (
    NOTHING,
    Adder,
    Compare,
    Components,
    Gates,
    Mux,
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
        components: what rounds it.
        bits: that differ from its sign, and the sign; the others are copies of it.
        width: all bits.
        nonnegative: whether its sign is known to be zero.
        zeros: bits at its end that are known to be zero.
    """

    components: Components
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
    components = Components.of(Rounding(kept + 1, shift))
    return Rounded(components, kept + 1, whole, unsigned)


def bounded(number: Rounded, result: Encoding) -> Components:
    """Return `mase_fixed_bound` of a rounded number, and the register of the result."""
    stored = min(number.stored, result.width)
    if result.overflow is Overflow.WRAP:
        return Components.of(Register(stored))
    above = number.bits - number.nonnegative - (result.width - result.signed)
    above -= result.signed and not number.nonnegative
    if result.signed and above <= 0:
        return Components.of(Register(stored))
    if not result.signed and above <= 0:
        return Components.of(Register(stored))
    # What was shifted in is all ones or all zeros, and the sign of what has none stays zero.
    alike = max(min(number.zeros, result.width) - 1 - result.symmetric, 0)
    bits = result.width - alike - (result.signed and number.nonnegative)
    return Components.of(Saturation(bits, above), Register(bits))


def cast(
    width: int, fraction: int, result: Encoding, *, unsigned: bool = False, before: int = 0
) -> Components:
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
    plain = not number.components.items and len(ends.items) == 1
    if plain:
        # Nothing happens from register to register.
        lost = max(number.stored - result.width, 0)
        return Components.of(Register(number.stored - lost, 2 + before), Register(lost, before))
    return Components.of(number.components, Register(width, before), Register(number.stored), ends)


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


def clip(result: Encoding, low: int, high: int, *, shared: bool = False) -> Components:
    """Return `mase_fixed_clip`, with a register behind comparisons.

    Args:
        result: encoding of the codes.
        low: the lower bound.
        high: the upper one.
        shared: whether the tables of a saturation choose the bound too.
    """
    width, compared = result.width, comparisons(result, low, high)
    bottom, top, mask = _bounds(result, low, high)
    components = Components.of(
        (Compare(width, constant=True), compared), Register((width + compared) * (compared > 0))
    )
    # A zero is chosen by the reset of a register.
    chosen = top != mask or (bottom and low & mask)
    return components + (Components.of(Mux(2, width)) if chosen and not shared else NOTHING)


def tree(lanes: int, width: int, *, grows: bool = True) -> Components:
    """Return a tree of adders with a register behind each.

    Args:
        lanes: numbers that it adds.
        width: their bits.
        grows: whether sums have a bit more at each level.
    """
    components, inputs = NOTHING, lanes
    while inputs > 1:
        out = width + grows
        pairs, single = divmod(inputs, 2)
        components += Components.of((Adder(out, full=True), pairs), (Register(out), pairs))
        # A number without a partner has a copy of its sign on top.
        components += Components.of((Register(width), single))
        inputs, width = pairs + single, out
    return components


def dot_product(lanes: int, data: int, weight: int) -> Components:
    """Return `mase_dot_product` of signed operands of so many bits."""
    width = data + weight
    products = Components.of((Product(data, weight), lanes), (Register(width), lanes))
    return products + tree(lanes, width)


def choice(bits: int) -> Components:
    """Return gates that a bit opens for a word of `bits`."""
    return Components.of(Gates(bits))
