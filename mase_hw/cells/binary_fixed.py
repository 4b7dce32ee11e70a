"""Sums, differences, products, minima, maxima and relations of fixed-point numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell
from mase_hw.cells._components import Adder, Compare, Components, Mux, Product, Register
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._fixed_components import cast
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._operation import Operation
from mase_hw.cells._pipeline import join, stream_pipeline
from mase_hw.formats import Encoding, Overflow, Rounding


@dataclass(frozen=True)
class BinaryFixed(Elementwise):
    """Two operands, combined exactly and rounded once.

    Attributes:
        data_in_1: encoding of the second operand.
        operation: what is computed.
    """

    data_in_1: Encoding
    operation: Operation

    @property
    def multipliers(self) -> int:
        return self.lanes if self.operation is Operation.MULTIPLY else 0

    @property
    def motion(self) -> Motion:
        """What is computed, its rounding and bounds, and a queue."""
        return Steps(self._stages + 2)

    @property
    def _stages(self) -> int:
        """Operands and product, or what else is rounded; rounding and bounds."""
        return 4 if self.operation is Operation.MULTIPLY else 2 + self._rounds

    @property
    def _rounds(self) -> bool:
        """Whether what is no product has a carry of its rounding too."""
        out = self.data_out_0
        fraction = max(self.data_in_0.fraction, self.data_in_1.fraction)
        if self.operation.compares:
            fraction = 0
        return fraction > out.fraction and out.rounding is not Rounding.FLOOR

    @property
    def components(self) -> Components:
        """What is computed and its cast for each lane, and a pipeline."""
        first, second, out = self.data_in_0, self.data_in_1, self.data_out_0
        left, right = first.width + (not first.signed), second.width + (not second.signed)
        if self.operation is Operation.MULTIPLY:
            lane = Components.of(Register(first.width + second.width))
            lane += Components.of(Product(left, right))
            lane += cast(left + right, first.fraction + second.fraction, out, before=1)
        else:
            fraction = max(first.fraction, second.fraction)
            left, right = left + fraction - first.fraction, right + fraction - second.fraction
            width = 1 + max(left, right)
            before = int(self._rounds)
            if self.operation.compares:
                lane = Components.of(Compare(width)) + cast(2, 0, out, before=before, unsigned=True)
            elif self.operation in (Operation.MINIMUM, Operation.MAXIMUM):
                lane = Components.of(Compare(width), Mux(2, width))
                lane += cast(width, fraction, out, before=before)
            else:
                lane = Components.of(Adder(width)) + cast(width, fraction, out, before=before)
        pipeline = stream_pipeline(self.lanes * out.width, self._stages)
        return lane * self.lanes + join(2) + pipeline

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Operations of every kind; fractions and signs that differ."""
        first, second = Encoding(6, fraction=4), Encoding(5, fraction=1, signed=False)
        wrapping = Encoding(4, fraction=2, overflow=Overflow.WRAP)
        return (
            cls(first, wrapping, 3, second, Operation.ADD, beats=5),
            cls(second, first, 1, first, Operation.SUBTRACT, beats=4),
            cls(first, second, 2, second, Operation.MULTIPLY, beats=4),
            cls(first, wrapping, 2, second, Operation.MAXIMUM, beats=4),
            cls(second, Encoding(2, signed=False), 2, first, Operation.LESS_EQUAL, beats=4),
        )
