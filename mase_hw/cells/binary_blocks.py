"""Sums, differences and products of blocks of integers or floats with shared scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell
from mase_hw.cells._components import Components, Offset, Register
from mase_hw.cells._elementwise import Encoded
from mase_hw.cells._encoder import (
    EXPONENT,
    encode,
    scalar_decode,
    scaled_arithmetic,
    significand_bits,
)
from mase_hw.cells._operation import Operation
from mase_hw.cells._pipeline import join
from mase_hw.formats import Encoding, Kind


@dataclass(frozen=True)
class BinaryBlocks(Encoded):
    """Two operands, combined exactly and encoded in blocks.

    Attributes:
        data_in_1: encoding of the second operand.
        operation: what is computed.
        guard_bits: bits that sums keep below the operand of larger exponent.
    """

    data_in_1: Encoding
    operation: Operation
    guard_bits: int

    @property
    def stages(self) -> int:
        return 1 + self.operation.stages

    @property
    def multipliers(self) -> int:
        return self.rows * self.lanes if self.operation is Operation.MULTIPLY else 0

    @property
    def components(self) -> Components:
        """For each lane exponents and what is computed; an encoder of blocks."""
        first, second = self.data_in_0, self.data_in_1
        left, right = significand_bits(first), significand_bits(second)
        product = self.operation is Operation.MULTIPLY
        subtracts = self.operation is Operation.SUBTRACT
        exponent = min(EXPONENT, max(first.scale_width, second.scale_width) + 2)
        lane = Components.of(Register(left + right + 2 * exponent), (Offset(exponent, 4), 2))
        lane += scaled_arithmetic(
            product, left, right, self.guard_bits, negated=subtracts, exponent=exponent
        )
        width = left + right if product else max(left, right) + self.guard_bits + 1
        lane += scalar_decode(first) + scalar_decode(second)
        count, out = self.rows * self.lanes, self.data_out_0
        shape = self.rows, self.lanes, self.size
        codes = encode(width, out, self.stages, *shape)
        return lane * count + join(2) + codes

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Every operation; floats; blocks of several sizes, a short one at the end of a row."""
        short = Encoding(
            4, symmetric=True, block_size=4, scale_width=4, scale_bias=7, scale_codes=15
        )
        long = Encoding(6, block_size=8, scale_width=5, scale_bias=15, scale_codes=31)
        floats = replace(short, kind=Kind.FLOAT, width=5, exponent_width=2, maximum_code=15)
        return (
            cls(short, long, 4, 2, 13, short, Operation.ADD, 8, beats=8),
            cls(long, short, 2, 1, 13, short, Operation.SUBTRACT, 8, beats=14),
            cls(long, long, 1, 1, 6, long, Operation.MULTIPLY, 8, beats=6),
            cls(floats, floats, 2, 1, 6, short, Operation.ADD, 8, beats=6),
        )
