"""What sums over rows, their reciprocals and the stores that rows wait in are made of."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.cells._components import (
    Adder,
    Compare,
    Components,
    Gates,
    Memory,
    Mux,
    Negation,
    Offset,
    Product,
    Register,
    Shifter,
    Table,
    Words,
    Zeros,
)
from mase_hw.cells._encoder import radix_bits
from mase_hw.cells._fixed_components import tree
from mase_hw.cells._pipeline import counter, credits, growing_counter, index_bits, level
from mase_hw.geometry.growth import Growth

# Words of fewer bits are multiplied in logic, in so many groups of their bits.
LEAST_MULTIPLIED_BITS, LOGIC_GROUPS = 10, 3


def row_store(
    width: int,
    row: int,
    delay: int,
    values: Sequence[tuple[int, int]],
    *,
    beyond: int = 0,
    growth: Growth | None = None,
) -> Components:
    """Return the components of `mase_row_store`.

    Args:
        width: bits of a beat.
        row: beats of a row.
        delay: cycles from the last beat of a row to its value.
        values: bits of a row's value, and how many registers more they pass as they are.
        beyond: registers more that a beat passes as it is.
        growth: of the rows, where they grow.
    """
    depth = row + delay
    rows = (depth - 1) // (1 if growth else row) + 1
    words = Components.of(
        Memory(depth, width, stages=2 + beyond),
        *(Memory(rows, bits, stages=2 + more) for bits, more in values),
        Gates(2),
    )
    counters = growing_counter(row, growth) + counter(depth) + counter(rows)
    return words + credits(depth) + level(rows) + counters * 2


def row_flags(lanes: int) -> Components:
    """Components beside the folds of a row of so many lanes a beat."""
    stages = 2 + (lanes - 1).bit_length()
    return Components.of(Register(1), (Register(1), 2 * stages + 1), Register(1, stages), Gates(2))


def row_fold(
    lanes: int,
    row: int,
    width: int,
    out: int,
    *,
    signed: bool = True,
    maximum: bool = False,
    before: int = 0,
) -> Components:
    """Return the components of `mase_row_fold` without its flags.

    Args:
        lanes: elements of a beat.
        row: elements of a row.
        width: bits of an element.
        out: bits of the result.
        signed: whether elements have a sign.
        maximum: whether their maximum is taken in place of their sum.
        before: registers in front of it that nobody else reads.
    """
    outside = -row % lanes
    # A sum's lane outside of the row is reset, a maximum's is another one.
    beyond = Components.of(
        Register(width, before + 1), Register(width), Mux(2 if maximum else 1, width)
    )
    lane = Components.of((Register(width, before + 2), lanes - outside), Register(int(outside > 0)))
    lane += beyond * outside
    if not maximum:
        sums = tree(lanes, width + (not signed))
        return lane + sums + Components.of(Adder(out, gated=True), Register(out))
    inputs, components = lanes, Components.of(Compare(out), Mux(2, out), Register(out))
    while inputs > 1:
        pairs = inputs // 2
        components += Components.of((Compare(width), pairs), (Mux(2, width), pairs))
        inputs -= pairs
        components += Components.of(Register(width * inputs))
    return lane + components


def reciprocal(
    point: int, growth: int, fraction: int, index: int, words: Words, *, step: bool
) -> Components:
    """Return the components of `mase_reciprocal`; the arguments are its parameters."""
    width, place = point + growth + 1, index_bits(growth + 1)
    mantissa, word = (fraction + 1, index + 2) if step else (index, fraction)
    components = Components.of(
        Zeros(growth, growth + 1),
        Register(width),
        Register(place, 7 if step else 4),
        Shifter(width, growth + 1),
        Register(mantissa),
        Table(1 << index, word + 1, words, stages=2),
    )
    if not step:
        return components + Components.of(Shifter(word + 1, growth + 1), Register(fraction + 1))
    logic = word < LEAST_MULTIPLIED_BITS
    groups = LOGIC_GROUPS if logic else 1
    error, scaled = mantissa - index + 1, word + 1 + growth * logic
    kept, product = word + error, mantissa + 1 + scaled
    components += Components.of(
        Negation(kept, chosen=False),
        Register(kept, 2),
        Register(word + 1),
        Register(scaled),
        (Register(kept), groups),
        Register(error),
        (Register(product), groups),
        Shifter(scaled if logic else fraction + growth + 1, growth + 1),
        Register(fraction + 1),
    )
    if logic:
        return components + _rows(word + 1, kept) + _rows(error + 1, product)
    return components + Components.of(
        Product(mantissa + 2, word + 2), Product(word + 2, error), Adder(product, full=True)
    )


def _rows(count: int, width: int) -> Components:
    """Return the sum of so many shifted numbers, each or zero, in groups and then of these."""
    gates = (count - LOGIC_GROUPS + 1) * width
    return Components.of(Gates(gates), (Adder(width, full=True), LOGIC_GROUPS + 1))


def reciprocal_root(
    width: int, fraction: int, index: int, words: Words, *, step: bool
) -> Components:
    """Return the components of `mase_reciprocal_root` and of the register in front of it.

    The other arguments are its parameters.
    """
    half = index_bits((width + 1) // 2)
    mantissa, word = (fraction + 1, index + 2) if step else (index, fraction)
    components = normalize_natural(width + 1, mantissa + 1) + Components.of(
        Register(1),
        Register(half, 7 if step else 3),
    )
    if not step:
        return components + Components.of(Table(2 << index, word + 1, words, stages=2))
    square = 2 * word + 2
    return components + Components.of(
        Table(2 << index, word + 1, words, stages=2),
        Mux(2, mantissa + 2),
        Register(mantissa + 1, 3),
        Register(word + 1, 3),
        Product(word + 2, word + 2),
        Register(square),
        Product(square + 1, mantissa + 3),
        Register(mantissa + 2),
        Offset(mantissa + 2),
        Register(mantissa + 2),
        Product(word + 2, mantissa + 3),
        Register(fraction + 1),
    )


def normalize_natural(width: int, kept: int) -> Components:
    """Return `mase_normalize` of a number without sign, and the register in front of it.

    Args:
        width: bits of the number, its sign included.
        kept: bits that are read of the significand.
    """
    radix, digit, shift = radix_bits(width)
    # What is shifted into the bits that are kept, from step to step.
    needed = [min(width - 1, kept + most) for most in (radix**3 - 1, radix**2 - 1, radix - 1, 0)]
    looked = min(width - 1, radix**2)
    components = Components.of(
        # The number, its magnitude, and the first place, up to which nothing looks at its end.
        Register(looked, 2),
        Register(looked),
        Register(needed[0] - looked, 3),
        Register(sum(needed[1:])),
        *(Shifter(bits, radix, 1) for bits in needed[1:]),
        (Zeros(width, radix), 3),
        Register(3 * digit),
    )
    if radix in (2, 4):
        return components + Components.of(Register(digit, 3), Register(digit * 3))
    return components + Components.of((Adder(shift), 2), Register(3 * shift))
