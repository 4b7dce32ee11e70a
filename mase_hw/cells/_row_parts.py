"""What sums over rows, their reciprocals and the stores that rows wait in are made of."""

from __future__ import annotations

from mase_hw.cells._encoder import normalize
from mase_hw.cells._fixed_parts import tree
from mase_hw.cells._parts import (
    Adder,
    Compare,
    Gates,
    Memory,
    Mux,
    Offset,
    Parts,
    Product,
    Register,
    Shifter,
    Table,
    Words,
    Zeros,
)
from mase_hw.cells._pipeline import credits, index_bits, level, turn


def row_store(width: int, row: int, delay: int, value: int) -> Parts:
    """Return the parts of `mase_row_store`.

    Args:
        width: bits of a beat.
        row: beats of a row.
        delay: cycles from the last beat of a row to its value.
        value: bits of a row's value.
    """
    depth = row + delay
    rows = (depth - 1) // row + 1
    words = Parts.of(
        Memory(depth, width, registered=True),
        Memory(rows, value, registered=True),
        Register(width + value, 2),
        Gates(2),
    )
    return words + credits(depth) + level(rows) + (turn(row) + turn(depth) + turn(rows)) * 2


def row_fold(
    lanes: int, row: int, width: int, out: int, *, signed: bool = True, maximum: bool = False
) -> Parts:
    """Return the parts of `mase_row_fold`.

    Args:
        lanes: elements of a beat.
        row: elements of a row.
        width: bits of an element.
        out: bits of the result.
        signed: whether elements have a sign.
        maximum: whether their maximum is taken in place of their sum.
    """
    stages = 2 + (lanes - 1).bit_length()
    outside = -row % lanes
    flags = Parts.of(Register(1), (Register(1), 2 * stages + 1), Register(1, stages), Gates(2))
    lane = Parts.of((Register(width), lanes), (Gates(width), outside), Register(int(outside > 0)))
    if not maximum:
        sums = tree(lanes, width + (not signed))
        return flags + lane + sums + Parts.of(Adder(out, gated=True), Register(out))
    inputs, parts = lanes, Parts.of(Compare(out), Mux(2, out), Register(out))
    while inputs > 1:
        pairs = inputs // 2
        parts += Parts.of((Compare(width), pairs), (Mux(2, width), pairs))
        inputs -= pairs
        parts += Parts.of(Register(width * inputs))
    return flags + lane + parts


def reciprocal(
    point: int, growth: int, fraction: int, index: int, words: Words, *, step: bool
) -> Parts:
    """Return the parts of `mase_reciprocal`; the arguments are its parameters."""
    width, place = point + growth + 1, index_bits(growth + 1)
    mantissa, word = (fraction + 1, index + 2) if step else (index, fraction)
    parts = Parts.of(
        Zeros(growth, growth + 1),
        Register(width),
        Register(place, 7 if step else 4),
        Shifter(width, growth + 1),
        Register(mantissa),
        Table(1 << index, word + 1, words, stages=2),
    )
    if not step:
        return parts + Parts.of(Shifter(word + 1, growth + 1), Register(fraction + 1))
    product = mantissa + word + 2
    return parts + Parts.of(
        Register(mantissa + word + 1, 2),
        Product(mantissa + 2, word + 2),
        Register(product),
        Offset(mantissa + 2),
        Register(mantissa + 2),
        Product(word + 2, mantissa + 3),
        Register(product + 1),
        Shifter(fraction + growth + 1, growth + 1),
        Register(fraction + 1),
    )


def reciprocal_root(width: int, fraction: int, index: int, words: Words, *, step: bool) -> Parts:
    """Return the parts of `mase_reciprocal_root`; the arguments are its parameters."""
    half = index_bits((width + 1) // 2)
    mantissa, word = (fraction + 1, index + 2) if step else (index, fraction)
    parts = normalize(width + 1, mantissa + 2, 8) + Parts.of(
        Register(half, 6 if step else 2),
        Table(2 << index, word + 1, words, stages=2),
    )
    if not step:
        return parts
    square = 2 * word + 2
    return parts + Parts.of(
        Mux(2, mantissa + 2),
        Register(mantissa + 2, 3),
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
