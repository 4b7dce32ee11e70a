"""Exact sums of products in fixed point, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._accumulator import Accumulator
from mase_hw.cells._base import Cell, Port
from mase_hw.cells._fixed_parts import cast, dot_product
from mase_hw.cells._motion import Fold, Motion
from mase_hw.cells._parts import Adder, Parts, Register
from mase_hw.cells._pipeline import accumulate_pipeline
from mase_hw.formats import Encoding

# From here on the code of all lanes outgrows the caches of a processor: a simulation calls the code
# of one dot product for each result instead. Fewer lanes are faster as code of their own.
SHARED_MULTIPLIERS = 256


@dataclass(frozen=True)
class MultiplyAccumulate(Accumulator):
    """Sums in the narrowest accumulator that the actual weights allow.

    Attributes:
        separate: whether each result has elements of its own.
        accumulator_width: bits of the sums.
        tail: elements of a row that count in the last beat of a sum; 0 for all of them.
    """

    separate: bool = False
    accumulator_width: int = 20
    tail: int = 0

    def _data_port(self) -> Port:
        lanes = self.in_lanes * (self.out_lanes if self.separate else 1)
        return Port.elements(self.data_in_0, lanes, self.beats, rows=self.rows)

    @property
    def _scales(self) -> bool:
        return False

    @property
    def motion(self) -> Motion:
        """Operands, products, a tree of adders, the sum, its rounding, a queue."""
        return Fold(self.terms, 7 + self._levels)

    @property
    def parts(self) -> Parts:
        """Dot products, sums and their casts, and a pipeline of rounds."""
        data, weight, out = self.data_in_0, self.weight, self.data_out_0
        results, bias = self.rows * self.out_lanes, self.bias.width if self.bias else 0
        left, right = data.width + (not data.signed), weight.width + (not weight.signed)
        fraction = data.fraction + weight.fraction
        fraction = max(fraction, self.bias.fraction) if self.bias else fraction
        sums = dot_product(self.in_lanes, left, right)
        shifted = left + right + self._levels + fraction - data.fraction - weight.fraction
        width = self.accumulator_width if self.terms > 1 or bias else shifted
        if self.terms > 1 or bias:
            sums += Parts.of(Adder(width, gated=True, full=True))
        sums += Parts.of(Register(width)) + cast(width, fraction, out)
        operands = self._data_port().width_bits + self.inputs["weight"].width_bits
        pipeline = accumulate_pipeline(
            self.terms, 2 + self._levels, 3, self.out_lanes * bias, results * out.width
        )
        return sums * results + Parts.of(Register(operands)) + pipeline

    @property
    def repeated(self) -> tuple[str, ...]:
        """The dot product of each result, where there are many multipliers."""
        return ("mase_dot_product",) if self.multipliers >= SHARED_MULTIPLIERS else ()

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """With and without bias, one term, separate results, and a tail."""
        data, weight, bias = Encoding(6, fraction=3), Encoding(5, fraction=4), Encoding(7)
        plain = cls(data, weight, bias, Encoding(8, fraction=2), 3, 2, 3, 2, 12)
        single = replace(plain, terms=1, bias=None, in_lanes=1, data_in_0=Encoding(4, signed=False))
        tail = replace(plain, bias=None, tail=1)
        return (plain, single, replace(plain, rows=1, separate=True), tail)
