"""Element-wise operators on blocks of integers with shared scales (MXINT, block floating point).

Elements are exact numbers `integer * 2**exponent`. Sums, differences and products of them are
exact, whatever the scales of the operands are; the exact results of a block decide its scale, and
are rounded once, as the format's encoding does. A function of one operand is the table of
`_unary_octaves` at the exact element, encoded in blocks in the same way: the elements are
correctly rounded in the block's scale where the table holds the operand, and within 5/8 of a step
beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from mase_hw.cells import Image
from mase_hw.cells._operation import Operation
from mase_hw.cells.binary_blocks import BinaryBlocks
from mase_hw.cells.unary_blocks import UnaryBlocks
from mase_hw.formats import names_in
from mase_hw.formats._block import BlockFormat
from mase_hw.formats._encoding import Families, Family
from mase_hw.ops._base import Call, Reference
from mase_hw.ops._blocks import block, block_axis, block_problems, check_tiles, is_block
from mase_hw.ops._elementwise import row_fields
from mase_hw.ops._scaled import MAX_BITS, Scaled, combined_bits, guard_bits
from mase_hw.ops._unary_octaves import OctaveTable, Span, fit_octaves
from mase_hw.ops._unary_rounding import RealFunction

INTEGER_BLOCKS: Families = frozenset({Family.INTEGER_BLOCK})


def serves(call: Call) -> bool:
    """Return whether anything comes in blocks of integers."""
    return any(is_block(spec) for spec in (*call.operands.values(), *call.results.values()))


def problems(call: Call) -> list[str]:
    """Return which operands and results are no blocks that can be streamed."""
    found = []
    legal = ", ".join(names_in(INTEGER_BLOCKS))
    rank = len(call.result.shape)
    for name, spec in {**call.operands, **call.results}.items():
        if is_block(spec):
            # A constant of fewer dimensions is one of the result's shape.
            missing = rank - len(spec.shape) if name in call.constants else 0
            shape = (*(1,) * missing, *spec.shape)
            found += block_problems(name, replace(spec, shape=shape))
        else:
            found.append(f"{name} is {spec.format}; beside blocks it must be one of {legal}")
    specs = [*call.operands.values(), *call.results.values()]
    axes = {block_axis(spec) for spec in specs if is_block(spec) and len(spec.shape) == rank}
    if not found and len(axes) > 1:
        found.append(
            f"its blocks lie along dimensions {', '.join(map(str, sorted(axes)))}: "
            "configure one axis for all operands and the result"
        )
    return found


def binary_problems(call: Call, operation: str) -> list[str]:
    """Return what stands between a sum or product and hardware."""
    found = problems(call)
    if not found and _width(call, operation) > MAX_BITS:
        width = _width(call, operation)
        found.append(f"the exact result takes {width} bits, at most {MAX_BITS} are supported")
    return found


def decode(number: BlockFormat, codes: Tensor) -> Scaled:
    """Return the elements of blocks."""
    bits, exponents = number.split(codes)
    return Scaled(number.element.integers(bits), exponents + number.element.lsb_exponent)


def binary_reference(call: Call, operation: str) -> Reference:
    """Return codes -> codes; constants are encoded once."""
    formats = {name: block(spec) for name, spec in call.operands.items()}
    constants = {name: decode(formats[name], call.constant_codes(name)) for name in call.constants}
    streams, result, guard = list(call.streams), call.result.quantized, _guard(call)

    def compute(*codes: Tensor) -> Tensor:
        given = zip(streams, codes, strict=True)
        operands = {**constants, **{name: decode(formats[name], item) for name, item in given}}
        exact = operands["data_in_0"].combine(operands["data_in_1"], operation, guard)
        return result.from_scaled(exact.integers, exact.exponents)

    return compute


def _bits(call: Call) -> tuple[int, int]:
    first, second = (block(call.operands[name]).element for name in ("data_in_0", "data_in_1"))
    return first.width, second.width


def _guard(call: Call) -> int:
    return guard_bits(*_bits(call), block(call.result).element.width)


def _width(call: Call, operation: str) -> int:
    return combined_bits(operation, *_bits(call), _guard(call))


def binary_cell(call: Call, operation: str) -> BinaryBlocks:
    """Return the cell of a sum or product.

    Raises:
        ParallelismError: when tiles do not divide the blocks.
    """
    _check_tiles(call)
    second = call.operands["data_in_1"].quantized.encoding
    return BinaryBlocks(
        *row_fields(call),
        second,
        Operation[operation.upper()],
        _guard(call),
        beats=call.result.beats,
    )


def _check_tiles(call: Call) -> None:
    for name, spec in {**call.operands, **call.results}.items():
        check_tiles(call.name, name, spec.with_parallelism(*call.result.parallelism))


@dataclass(frozen=True)
class BlockFunction:
    """A function of blocks.

    Attributes:
        table: the function of an element.
    """

    operand: BlockFormat
    result: BlockFormat
    table: OctaveTable

    @classmethod
    def fit(
        cls,
        function: RealFunction,
        knots: Sequence[float],
        operand: BlockFormat,
        result: BlockFormat,
        name: str,
    ) -> BlockFunction:
        """Fit the table of a real function."""
        fraction_bits, precision = operand.element.width - 2, result.element.width - 1
        inner, outer = _octaves(operand), _octaves(result)
        table = fit_octaves(function, knots, fraction_bits, inner, outer, precision, name)
        return cls(operand, result, table)

    def evaluate(self, codes: Tensor) -> Tensor:
        """Return the result codes of operand codes."""
        found = self.table.evaluate(decode(self.operand, codes))
        return self.result.from_scaled(found.integers, found.exponents)

    @cached_property
    def exponent_bits(self) -> int:
        """Bits of an exponent in the memory."""
        exponents: list[int] = self.table.words.exponents.tolist()
        return 1 + max(max(place, ~place).bit_length() for place in exponents)

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The bit patterns of the memory: the integer in the low bits, its exponent above."""
        width = self.table.word_bits + 1
        mask, exponent_mask = (1 << width) - 1, (1 << self.exponent_bits) - 1
        words = self.table.words
        pairs = zip(words.integers.tolist(), words.exponents.tolist(), strict=True)
        return tuple(
            (integer & mask) | (exponent & exponent_mask) << width for integer, exponent in pairs
        )


def _octaves(number: BlockFormat) -> Span:
    """Return the octaves of a format's elements; half of its smallest step is below them."""
    low = number.element.lsb_exponent - number.scale.bias
    return Span(low - 2, number.scale.codes - number.scale.bias)


def unary_cell(call: Call, function: BlockFunction) -> UnaryBlocks:
    """Return a function's cell.

    Raises:
        ParallelismError: when tiles do not divide the blocks.
    """
    _check_tiles(call)
    table, exponent_bits = function.table, function.exponent_bits
    width = table.word_bits + 1
    octaves = table.octaves.high - table.octaves.low + 1
    words = Image(width + exponent_bits, lambda: function.words)
    return UnaryBlocks(
        *row_fields(call),
        table.octaves.low,
        octaves,
        width,
        exponent_bits,
        *table.orders,
        words,
        beats=call.result.beats,
    )
