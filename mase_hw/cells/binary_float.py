"""Sums, differences and products of floats, and of fixed-point numbers beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._encoder import encoder
from mase_hw.cells._motion import Motion
from mase_hw.cells._operation import Operation
from mase_hw.formats import Encoding, Kind


@dataclass(frozen=True)
class BinaryFloat(Elementwise):
    """Two operands, combined exactly and rounded once.

    Attributes:
        data_in_1: encoding of the second operand.
        operation: what is computed.
        data_in_0_infinity: whether infinity follows the largest number of the first operand.
        data_in_1_infinity: whether it does of the second one.
        overflow_code: the magnitude that stands for overflow in a result.
        nan_code: the code that stands for NaN.
        guard_bits: bits that sums keep below the operand of larger exponent.
    """

    data_in_1: Encoding
    operation: Operation
    data_in_0_infinity: bool
    data_in_1_infinity: bool
    overflow_code: int
    nan_code: int
    guard_bits: int

    @property
    def multipliers(self) -> int:
        """One for each lane of products."""
        return self.lanes if self.operation is Operation.MULTIPLY else 0

    @property
    def motion(self) -> Motion:
        """Decoded operands, what is computed, its rounding."""
        return encoder(1 + self.operation.stages, self.data_out_0, self.lanes, self.lanes)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Every operation, with infinities and beside fixed point."""
        ieee = Encoding(6, Kind.FLOAT, exponent_width=3, exponent_bias=3, maximum_code=27)
        fixed = Encoding(5, fraction=2)
        return (
            cls(ieee, ieee, 3, ieee, Operation.ADD, True, True, 28, 29, 5, beats=5),
            cls(fixed, ieee, 1, ieee, Operation.SUBTRACT, False, True, 27, 31, 5, beats=4),
            cls(ieee, fixed, 2, fixed, Operation.MULTIPLY, True, False, 0, 15, 7, beats=4),
        )
