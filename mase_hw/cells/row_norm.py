"""Rows over their standard deviation or their root mean square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Image, Port, Value, fact
from mase_hw.cells._components import NOTHING, Adder, Components, Offset, Product, Register, Table
from mase_hw.cells._encoder import shift_right
from mase_hw.cells._fixed_components import cast
from mase_hw.cells._motion import Motion
from mase_hw.cells._pipeline import counter, layer_walk, stream_pipeline
from mase_hw.cells._row_components import reciprocal_root, row_flags, row_fold, row_store
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
        layers: whose weights follow each other, to be used one after the other.
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
    layers: int = fact(1)

    @property
    def parameters(self) -> Mapping[str, Value]:
        """The fields; of several layers, how many, and the rows of each."""
        if self.layers == 1:
            return super().parameters
        rows = self.beats // self._row_beats
        return {**super().parameters, "LAYERS": self.layers, "ROWS": rows}

    @property
    def _row_beats(self) -> int:
        return -(-self.row // self.lanes)

    def multiplexed(self, others: Sequence[Cell]) -> Cell:
        """Return the same with the weights and biases of all."""
        cells = [self, *(cell for cell in others if isinstance(cell, RowNorm))]
        images = [cell.weights for cell in cells]
        if not self.affine or all(image == self.weights for image in images):
            return super().multiplexed(others)
        weights = Image(
            self.weights.width_bits, lambda: [word for image in images for word in image.words]
        )
        first, *rest = (replace(cell, weights=weights, layers=len(cells)) for cell in cells)
        return super(RowNorm, first).multiplexed([*rest, *others[len(rest) :]])

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in_0": Port.elements(self.data_in_0, self.lanes, self.beats)}

    @property
    def outputs(self) -> Mapping[str, Port]:
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
    def components(self) -> Components:
        """Squares, two sums, a root, and what each element is turned into; a store."""
        lanes, beats = self.lanes, self._row_beats
        code, out = self.data_in_0.width, self.data_out_0
        width, grown = code + (not self.data_in_0.signed), (self.row - 1).bit_length()
        total, squares = width + grown, 2 * width - 1 + grown
        stages = (12 if self.step else 8) + 2
        half = ((self.square_width + 1) // 2 - 1).bit_length()
        sums = Components.of(Register(lanes * code), (Register(1), 4))
        sums += Components.of((Product(width, width), lanes)) + row_flags(lanes)
        sums += row_fold(lanes, self.row, 2 * width - 1, squares, signed=False, before=1)
        square = self.square_width
        if self.centred:
            signed = self.data_in_0.signed
            sums += row_fold(lanes, self.row, code, total, signed=signed, before=1)
            sums += Components.of(Product(total, total), Register(min(2 * total - 1, square)))
            sums += Components.of(Adder(square - self.below_bits), Register(total, stages))
        constant = self.constant_high << 31 | self.constant_low
        sums += Components.of(
            self._times_row(squares + 1, square),
            Register(min(squares + grown * self._multiplies, square)),
            Offset(square, constant.bit_count()),
            (Register(1), stages),
        )
        root = reciprocal_root(
            square, self.root_fraction, self.index_bits, self.table, step=self.step
        )
        fold = 6 + (lanes - 1).bit_length()
        # A beat's registers go on where its product with the size of a row is a shift.
        beyond = 0 if self._multiplies else 1 if self.centred else 2
        values = [(self.root_fraction + 1, 2), (half, 0 if self._drop else 3)]
        if self.centred:
            values.append((total, 1))
        store = row_store(lanes * code, beats, fold + stages, values, beyond=beyond)
        later = Components.of(Offset(half + 1), Register(half + 1, 3)) if self._drop else NOTHING
        if self.affine:
            # A weight has two registers, a bias a third.
            for bits, low, kept in (
                (self.weight.width, 0, 2),
                (self.bias.width, self.weight.width, 3),
            ):
                words = self._affine(low, bits)
                later += Components.of(Table(self.layers * beats, lanes * bits, words, stages=kept))
            later += self._walk + Components.of((Register(1), 5))
        lanes_parts = self._lane_components(total) * lanes
        return sums + root + store + later + lanes_parts + stream_pipeline(lanes * out.width, 11)

    @property
    def _walk(self) -> Components:
        """What counts the words of weights and biases."""
        beats = self._row_beats
        if self.layers == 1:
            return counter(beats)
        return layer_walk(beats, self.layers, self.beats // beats)

    def _affine(self, low: int, bits: int) -> Image:
        """Return some bits of each lane of the weights and biases."""
        lane, mask = self.weight.width + self.bias.width, (1 << bits) - 1

        def words() -> list[int]:
            return [
                sum((word >> lane * i + low & mask) << bits * i for i in range(self.lanes))
                for word in self.weights.words
            ]

        return Image(self.lanes * bits, words)

    @property
    def _multiplies(self) -> int:
        """One where a product with the size of a row is more than a shift."""
        return int(self.row & (self.row - 1) > 0)

    def _times_row(self, width: int, result: int) -> Components:
        """Multiplier by the size of a row: one sum, where its digits are two."""
        if not self._multiplies:
            return NOTHING
        odd = self.row // (self.row & -self.row)
        if any((odd + one) & (odd + one - 1) == 0 for one in (-1, 1)):
            return Components.of(Adder(min(width + odd.bit_length(), result), full=True))
        return Components.of(Product(width, self.row.bit_length() + 1, self.row))

    @property
    def _drop(self) -> int:
        """Places that every product is shifted by."""
        return max(0, self.root_fraction - self.term_fraction - self.below_bits // 2)

    def _lane_components(self, total: int) -> Components:
        """Components that turn an element into a result."""
        width = self.data_in_0.width + (not self.data_in_0.signed)
        root = self.root_fraction + 1
        difference = total + self.centred if self._multiplies or self.centred else width
        components = NOTHING
        if self._multiplies:
            components += self._times_row(width, total)
            components += Components.of(Register(total, 1 + (not self.centred)))
        if self.centred:
            components += Components.of(Adder(difference), Register(difference))
        components += Components.of(Product(difference, root + 1), Register(difference + root))
        shifts = ((self.square_width + 1) // 2 + self._drop).bit_length()
        fraction, term = self.term_fraction, self.term_width
        components += shift_right(
            max(total + 1 + root, term), shifts, lost=False, kept=term, beyond=2 - 2 * self.affine
        )
        if not self.affine:
            return components + cast(term + 1, fraction, self.data_out_0)
        weighted = fraction + self.weight.fraction
        whole = max(weighted, self.bias.fraction)
        left = term + self.weight.width + 1 + whole - weighted
        bits = 1 + max(left, self.bias.width + 1 + whole - self.bias.fraction)
        product = term + self.weight.width - self.weight.signed
        components += Components.of(Product(term, self.weight.width + 1), Register(product))
        components += Components.of(Adder(bits - 1), Register(bits - 1))
        return components + cast(bits - 1, whole, self.data_out_0)

    @property
    def multipliers(self) -> int:
        """A square, a product and a weight a lane; the square of the sum; three for a step.

        No block makes two of them: of two lanes squares and weights have no operand in common, and
        two products with the root have 64 bits for 48.
        """
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
