"""Sums, differences and products of floats, and of fixed-point numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell
from mase_hw.cells._components import Compare, Components, Gates, Offset, Register
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._encoder import (
    EXPONENT,
    cast_stages,
    encoder,
    scalar_cast,
    scalar_decode,
    scaled_arithmetic,
    significand_bits,
)
from mase_hw.cells._motion import Motion
from mase_hw.cells._operation import Operation
from mase_hw.cells._pipeline import join, stream_pipeline
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
        return self.lanes if self.operation is Operation.MULTIPLY else 0

    @property
    def latencies(self) -> Mapping[str, int]:
        return {"CAST_STAGES": cast_stages(self.data_out_0)}

    @property
    def motion(self) -> Motion:
        """Decoded operands, what is computed, its rounding."""
        return encoder(1 + self.operation.stages, self.data_out_0, self.lanes, self.lanes)

    @property
    def components(self) -> Components:
        """For each lane decoded operands, what is computed, its code; a pipeline."""
        first, second, out = self.data_in_0, self.data_in_1, self.data_out_0
        left, right = significand_bits(first), significand_bits(second)
        product = self.operation is Operation.MULTIPLY
        subtracts = self.operation is Operation.SUBTRACT
        stages = self.operation.stages
        infinite = self.data_in_0_infinity or self.data_in_1_infinity
        most = max(code.exponent_width for code in (first, second)) + 2
        exponent = EXPONENT if infinite else min(EXPONENT, most)
        floats = (first.kind is Kind.FLOAT) + (second.kind is Kind.FLOAT)
        lane = (
            scalar_decode(first)
            + scalar_decode(second)
            + Components.of(
                Register(left + right + exponent * floats),
                (Offset(exponent, 4), floats),
                (Compare(first.width - 1, constant=True), floats),
                Register(1, stages + 1 + cast_stages(out)),
                Register(1, stages + 1),
                Register(1, cast_stages(out)),
                Gates(out.width + 4),
            )
        )
        lane += scaled_arithmetic(
            product, left, right, self.guard_bits, negated=subtracts, exponent=exponent
        )
        width = left + right if product else max(left, right) + self.guard_bits + 1
        lane += scalar_cast(width, out, stages=1)
        pipeline = stream_pipeline(self.lanes * out.width, 1 + stages + cast_stages(out))
        return lane * self.lanes + join(2) + pipeline

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
