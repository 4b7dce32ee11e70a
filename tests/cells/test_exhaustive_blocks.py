"""Small operations of blocks equal a definition written apart from them, for all blocks."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from mase_hw.cells.binary_blocks import BinaryBlocks
from mase_hw.cells.unary_blocks import UnaryBlocks
from tests.cells.blocks import Blocks, float_blocks, integer_blocks
from tests.cells.operators import operator_cell
from tests.cells.rational import Claim, check
from tests.cells.real import REALS
from tests.formats.block_rule import power_of

COMBINED: dict[str, Callable] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
}
MODELS: dict[str, Callable] = {
    "sigmoid": lambda x: x.sigmoid(),
    "exp": lambda x: x.exp(),
    "tanh": lambda x: x.tanh(),
    "square": lambda x: x.square(),
}


def binary(name: str, left: Blocks, right: Blocks, result: Blocks, lanes: int) -> Claim:
    """Every two blocks: the exact results of a block are encoded once."""
    size = left.encoding.block_size
    formats = {"data_in_0": left, "data_in_1": right, "data_out": result}
    numbers = {operand: blocks.number for operand, blocks in formats.items()}
    cell = operator_cell(BinaryBlocks, COMBINED[name], name, size, **numbers)
    nearest = cache(result.nearest)
    inputs: dict[str, list[int]] = {"data_in_0": [], "data_in_1": []}
    wanted = []
    for first, second in itertools.product(left.every(), right.every()):
        inputs["data_in_0"] += first.beats(lanes)
        inputs["data_in_1"] += second.beats(lanes)
        pairs = zip(first.values, second.values, strict=True)
        wanted += nearest(tuple(COMBINED[name](*pair) for pair in pairs)).beats(lanes)
    return Claim(replace(cell, lanes=lanes, beats=size // lanes), inputs, wanted)


def on_octaves(name: str, cell: UnaryBlocks, value: Fraction) -> Fraction:
    """Return the function where its table is, and a power of the operand beyond."""
    exact = REALS[name][1]
    if not value:
        return exact(value)
    octave, high = power_of(abs(value)), cell.low_octave + cell.octaves - 1
    nearest = min(max(octave, cell.low_octave), high)
    orders = [cell.order_0, cell.order_1, cell.order_2, cell.order_3]
    order = orders[2 * (octave > high) + (value < 0)]
    there = exact(value * Fraction(2) ** (nearest - octave))
    return there * Fraction(2) ** (order * (octave - nearest))


def unary_cell(name: str, operand: Blocks, result: Blocks) -> UnaryBlocks:
    size = operand.encoding.block_size
    numbers = {"data_in": operand.number, "data_out": result.number}
    return operator_cell(UnaryBlocks, MODELS[name], name, size, **numbers)


def unary(name: str, operand: Blocks, result: Blocks, lanes: int) -> Claim:
    """Every block: exact results, as the module's header says, are encoded once."""
    cell, size = unary_cell(name, operand, result), operand.encoding.block_size
    of_element = cache(lambda value: on_octaves(name, cell, value))
    nearest = cache(result.nearest)
    inputs, wanted = [], []
    for block in operand.every():
        inputs += block.beats(lanes)
        wanted += nearest(tuple(map(of_element, block.values))).beats(lanes)
    cell = replace(cell, lanes=lanes, beats=size // lanes)
    return Claim(cell, {"data_in_0": inputs}, wanted)


BINARY = (
    ("add", integer_blocks(3, 2, 2), integer_blocks(3, 2, 2), integer_blocks(4, 3, 2), 2),
    # Scales so far apart that bits are lost.
    ("add", integer_blocks(2, 5, 1), integer_blocks(3, 5, 1), integer_blocks(4, 5, 1), 1),
    ("add", float_blocks(1, 1, 2, 1), integer_blocks(4, 4, 1), float_blocks(2, 1, 3, 1), 1),
    ("sub", integer_blocks(3, 4, 1), float_blocks(2, 1, 3, 1), float_blocks(2, 1, 4, 1), 1),
    ("mul", float_blocks(1, 1, 2, 2), integer_blocks(2, 2, 2), float_blocks(2, 1, 3, 2), 1),
    ("mul", integer_blocks(4, 2, 1), integer_blocks(3, 4, 1), integer_blocks(4, 3, 1), 1),
)
UNARY = (
    ("sigmoid", integer_blocks(4, 3, 2), integer_blocks(4, 3, 2), 2),
    ("tanh", integer_blocks(5, 3, 1), integer_blocks(3, 5, 1), 1),
    ("tanh", float_blocks(2, 1, 3, 2), float_blocks(2, 1, 4, 2), 1),
    ("exp", integer_blocks(4, 3, 2), integer_blocks(5, 4, 2), 2),
    ("square", integer_blocks(3, 4, 2), float_blocks(2, 2, 5, 2), 1),
)


def claims() -> Iterator[tuple[str, Callable[[], Claim]]]:
    for one in BINARY:
        yield " ".join(map(str, one)), lambda a=one: binary(*a)
    for other in UNARY:
        yield " ".join(map(str, other)), lambda a=other: unary(*a)


CLAIMS = dict(claims())


@pytest.mark.full
@pytest.mark.parametrize("name", CLAIMS)
def test_every_block_gives_what_the_definition_says(name, found):
    check(*found[name])


@pytest.mark.parametrize("entry", UNARY[:2], ids=lambda entry: entry[0])
def test_functions_are_within_five_eighths_of_a_step(entry):
    """What the table leaves to a power of the operand is an eighth of a step off at most."""
    name, operand, result, _ = entry
    cell, powers = unary_cell(name, operand, result), 0
    for value in {value for block in operand.every() for value in block.values}:
        exact, near = REALS[name][1](value), on_octaves(name, cell, value)
        found = result.nearest([near])
        step = result.step * Fraction(2) ** result.exponent(found)
        powers += near != exact
        if abs(near) < max(result.elements.values()) / result.step * step:
            assert abs(found.values[0] - exact) <= Fraction(5, 8) * step, value
    assert powers
