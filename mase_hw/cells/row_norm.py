"""Rows over their standard deviation or their root mean square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Image, Port, fact
from mase_hw.cells._motion import Motion
from mase_hw.cells._rows import Rows
from mase_hw.formats import Encoding


@dataclass(frozen=True)
class RowNorm(Cell):
    """Elements times a reciprocal square root of their row, a weight, and a bias.

    Attributes:
        data_in_0: of the elements, integers.
        data_out_0: of the results, integers.
        weight: of the weights.
        bias: of the biases.
        affine: whether there are weights and biases.
        centred: whether the mean is subtracted.
        lanes: elements of a beat.
        row: elements of a row.
        below_bits: fraction bits below the root, an even number.
        constant_high: the constant below the root without its lowest 31 bits.
        constant_low: those bits.
        square_width: bits of the number below the root.
        root_fraction: fraction bits of the reciprocal square root.
        index_bits: binary logarithm of half of the words of its table.
        step: whether a step of Newton's iteration follows it.
        term_fraction: fraction bits of a normalised element.
        term_width: its bits.
        table: of reciprocal square roots.
        weights: for each beat of a row, for each lane a weight and above it a bias.
        beats: beats of one inference.
    """

    data_in_0: Encoding
    data_out_0: Encoding
    weight: Encoding
    bias: Encoding
    affine: bool
    centred: bool
    lanes: int
    row: int
    below_bits: int
    constant_high: int
    constant_low: int
    square_width: int
    root_fraction: int
    index_bits: int
    step: bool
    term_fraction: int
    term_width: int
    table: Image
    weights: Image
    beats: int = fact(1)

    @property
    def inputs(self) -> Mapping[str, Port]:
        """The elements."""
        return {"data_in_0": Port.elements(self.data_in_0, self.lanes, self.beats)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """The results, beat for beat."""
        return {"data_out_0": Port.elements(self.data_out_0, self.lanes, self.beats)}

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        """The table, and the weights and biases."""
        table = {"TABLE_FILE": ("table", self.table)}
        return {**table, "AFFINE_FILE": ("affine", self.weights)} if self.affine else table

    @property
    def motion(self) -> Motion:
        """Until squares, sums and root are known; then products, a shift, sum and rounding."""
        levels = (self.lanes - 1).bit_length()
        return Rows(-(-self.row // self.lanes), 8 + levels + (12 if self.step else 8), 13)

    @property
    def multipliers(self) -> int:
        """A square, a product and a weight a lane; the square of the sum; three for a step."""
        return (2 + self.affine) * self.lanes + self.centred + 3 * self.step

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Rows of several beats with a tail, of one; without weights; not centred; a step."""
        number, natural = Encoding(5, fraction=2), Encoding(4, fraction=1, signed=False)
        result, weight, bias = Encoding(6, fraction=3), Encoding(4, fraction=2), Encoding(5)
        table = Image(8, lambda: range(127, 63, -1))
        weights = Image(18, lambda: (7, 1 << 17, 4321))
        plain = cls(
            *(number, result, weight, bias, True, True, 2, 5, 2, 0, 3, 17, 7, 5, False),
            *(9, 13, table, weights),
            beats=6,
        )
        single = Image(9, lambda: range(255, 127, -1))
        return (
            plain,
            replace(plain, lanes=4, row=4, affine=False, beats=2),
            replace(
                plain, data_in_0=natural, lanes=1, row=2, weights=Image(9, lambda: (3, 400)),
                centred=False, root_fraction=12, index_bits=6, step=True, table=single, beats=4,
            ),
        )  # fmt: skip
