"""Functions of one fixed-point operand, as quadratics on segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell, Image, Value
from mase_hw.cells._components import (
    Adder,
    Compare,
    Components,
    Mux,
    Negation,
    Offset,
    Product,
    Register,
    Shifter,
    Table,
    Zeros,
)
from mase_hw.cells._elementwise import Elementwise
from mase_hw.cells._fixed_components import cast
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._pipeline import stream_pipeline
from mase_hw.formats import Encoding


@dataclass(frozen=True)
class UnaryPiecewise(Elementwise):
    """The segment is found, its coefficients read, and two products made.

    Attributes:
        regions: regions of the operand, 1 to 4, which are cut at the knots.
        downward_regions: how many of them, the first ones, are counted from their end.
        knots: the first codes of all regions but the first, less the least code where unsigned.
        bases: the address of the first segment of each region.
        distance_width: bits of the distance in a region.
        base_exponent: binary logarithm of the distance up to which segments have one width.
        index_bits: binary logarithm of the segments up to there, and in each octave beyond.
        segments: words of the memory.
        c0_width: bits of the constant coefficient, in the low bits of a word.
        c1_width: bits of the linear coefficient.
        c2_width: bits of the quadratic coefficient.
        slope_width: bits of the slope.
        sum_width: bits of the result before it is rounded.
        guard_bits: bits that it has below those of the result.
        table: the coefficients.
        odd: whether results of negative codes are those of the others, negated.
    """

    regions: int
    downward_regions: int
    knots: tuple[int, ...]
    bases: tuple[int, ...]
    distance_width: int
    base_exponent: int
    index_bits: int
    segments: int
    c0_width: int
    c1_width: int
    c2_width: int
    slope_width: int
    sum_width: int
    guard_bits: int
    table: Image
    odd: bool = False

    @property
    def parameters(self) -> Mapping[str, Value]:
        """The fields; knots and bases, which modules cannot have as lists, one by one."""
        listed = {
            **{f"KNOT_{number}": value for number, value in enumerate(self.knots)},
            **{f"BASE_{number}": value for number, value in enumerate(self.bases)},
        }
        return {**super().parameters, **listed}

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        return {"TABLE_FILE": ("table", self.table)}

    @property
    def motion(self) -> Motion:
        """Segment, coefficients, their products and sums, rounding, a queue."""
        return Steps(11)

    @property
    def multipliers(self) -> int:
        return 2 * self.lanes

    @property
    def components(self) -> Components:
        """For each lane its segment, the coefficients, two products and a cast; a pipeline."""
        data, out = self.data_in_0, self.data_out_0
        offset = self.distance_width - 1 - self.index_bits
        address = (self.segments - 1).bit_length()
        octaves = self.distance_width - self.base_exponent
        c0, c1, c2 = self.c0_width, self.c1_width, self.c2_width
        wide = data.width + 1
        lane = Components.of(
            # The region, the distance in it, the octave, the address.
            (Compare(wide, constant=True), self.regions - 1),
            (Offset(wide, wide // 2), self.regions),
            Mux(self.regions, wide),
            Zeros(octaves, octaves),
            Shifter(self.distance_width, octaves),
            Adder(address),
            Register(address),
            # The offset runs beside the products, of which no bits of it are left.
            Register(offset, 3),
            Register(offset, 2),
            Product(c2, offset + 1),
            Register(c2 + 1),
            Adder(self.slope_width),
            Register(self.slope_width),
            Product(self.slope_width, offset + 1),
            Register(self.slope_width + 1),
            Adder(self.sum_width),
            Register(self.sum_width),
        )
        if self.odd:
            lane += Components.of(Register(1, 6), Negation(self.sum_width))
        lane += cast(self.sum_width, out.fraction + self.guard_bits, out)
        words = Components.of(
            *(
                Table(
                    self.segments, bits, self._words(low, bits), stages=stages, readers=self.lanes
                )
                for bits, low, stages in ((c0, 0, 5), (c1, c0, 3), (c2, c0 + c1, 2))
            )
        )
        return lane * self.lanes + words + stream_pipeline(self.lanes * out.width, 9)

    def _words(self, low: int, bits: int) -> Image:
        """Return some bits of the coefficients."""
        mask = (1 << bits) - 1
        return Image(bits, lambda: [word >> low & mask for word in self.table.words])

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """One region, two around zero, and an odd function."""
        data, result = Encoding(8, fraction=4), Encoding(8, fraction=4)
        words = Image(24, lambda: range(7, 7 + 32 * 521, 521))
        sizes = (7, 4, 2, 32, 10, 8, 6, 9, 11, 5, words)
        unsigned = Encoding(7, fraction=4, signed=False)
        return (
            cls(data, result, 3, 2, 1, (0,), (0, 16), *sizes, beats=5),
            cls(unsigned, result, 1, 1, 0, (), (0,), *sizes, beats=4),
            cls(data, result, 2, 2, 1, (0,), (0, 0), *sizes, odd=True, beats=4),
        )
