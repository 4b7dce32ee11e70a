"""Element-wise operators on blocks of integers or floats with shared scales.

Elements are exact numbers `significand * 2**exponent`. Sums, differences and products of them are
exact, whatever the scales of the operands are; the exact results of a block decide its scale, and
are rounded once, as the format's encoding does. Functions of one operand are those of
`mase_hw.approximation.block_table`, encoded in blocks in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from mase_hw.approximation.domain import Function
from mase_hw.approximation.octaves import BlockTable
from mase_hw.arithmetic.scaled import (
    MAX_BITS,
    Scaled,
    combined_bits,
    decode,
    guard_bits,
    significand_bits,
)
from mase_hw.cells import Image, Operation
from mase_hw.cells.binary_blocks import BinaryBlocks
from mase_hw.cells.unary_blocks import UnaryBlocks
from mase_hw.formats import BLOCKS, BlockFormat, names_in
from mase_hw.geometry import blocks
from mase_hw.geometry.tensor import Order
from mase_hw.ops._elements import Elements
from mase_hw.ops._one_cell import row_fields


class BlockElements(Elements[BlockTable]):
    """Element-wise operators on blocks of integers or floats with shared scales."""

    def unary_problems(self) -> list[str]:
        call, problems = self.call, list[str]()
        legal = ", ".join(names_in(BLOCKS))
        rank = len(call.result.shape)
        for name, spec in {**call.operands, **call.results}.items():
            if blocks.is_block(spec):
                # A constant of fewer dimensions is one of the result's shape.
                missing = rank - len(spec.shape) if name in call.constants else 0
                shape = (*(1,) * missing, *spec.shape)
                problems += blocks.block_problems(name, replace(spec, shape=shape))
            else:
                problems.append(f"{name} is {spec.format}; beside blocks it must be one of {legal}")
        specs = [*call.operands.values(), *call.results.values()]
        axes = {
            blocks.block_axis(spec)
            for spec in specs
            if blocks.is_block(spec) and len(spec.shape) == rank
        }
        if not problems and len(axes) > 1:
            problems.append(
                f"its blocks lie along dimensions {', '.join(map(str, sorted(axes)))}: "
                "configure one axis for all operands and the result"
            )
        return problems

    def binary_problems(self, operation: str) -> list[str]:
        """Also refuse streams that are expanded, and exact results beyond 62 bits."""
        shapes = {spec.shape for spec in self.call.streams.values()}
        if len(shapes) > 1:
            return [f"streams of shapes {sorted(shapes)} are expanded in fixed point only"]
        if problems := self.unary_problems():
            return problems
        width = combined_bits(operation, *self._bits, self._guard)
        if width > MAX_BITS:
            return [f"the exact result takes {width} bits, at most {MAX_BITS} are supported"]
        return []

    @property
    def _bits(self) -> tuple[int, int]:
        operands = self.call.operands
        first, second = (blocks.block(operands[name]) for name in ("data_in_0", "data_in_1"))
        return significand_bits(first), significand_bits(second)

    @property
    def _guard(self) -> int:
        return guard_bits(*self._bits, significand_bits(blocks.block(self.call.result)))

    def decode(self, operand: str, codes: Tensor) -> Scaled:
        return decode(blocks.block(self.call.operands[operand]), codes)

    def combination(self, operation: str) -> Callable[[Scaled, Scaled], Tensor]:
        guard, result = self._guard, self.call.result.quantized

        def combine(first: Scaled, second: Scaled) -> Tensor:
            exact = first.combine(second, operation, guard)
            return result.from_scaled(exact.integers, exact.exponents)

        return combine

    def binary_cell(self, operation: str) -> BinaryBlocks:
        """Return the cell of a sum, difference or product.

        Raises:
            ParallelismError: when tiles do not divide the blocks.
        """
        self._check_tiles()
        return BinaryBlocks(
            *row_fields(self.call),
            self.call.operands["data_in_1"].quantized.encoding,
            Operation[operation.upper()],
            self._guard,
            beats=self.call.result.beats,
        )

    def _check_tiles(self) -> None:
        call = self.call
        for name, spec in {**call.operands, **call.results}.items():
            blocks.check_tiles(call.name, name, spec.with_parallelism(*call.result.parallelism))

    @staticmethod
    def fit(function: Function, operand: BlockFormat, result: BlockFormat) -> BlockTable:
        return BlockTable.fit(function, function.knots, operand, result, function.name)

    def unary_cell(self, evaluator: BlockTable) -> UnaryBlocks:
        """Return the table's cell.

        Raises:
            ParallelismError: when tiles do not divide the blocks.
        """
        self._check_tiles()
        table, exponent_bits = evaluator.table, evaluator.exponent_bits
        width = table.word_bits + 1
        return UnaryBlocks(
            *row_fields(self.call),
            table.octaves.low,
            table.octaves.high - table.octaves.low + 1,
            width,
            exponent_bits,
            *table.orders,
            Image(width + exponent_bits, lambda: evaluator.words),
            beats=self.call.result.beats,
        )

    def orders(self, otherwise: dict[str, Order | None]) -> dict[str, Order | None]:
        return dict.fromkeys(
            [*self.call.streams, *self.call.results], blocks.block_order(self.call.result)
        )
