"""Functions of one operand on blocks of integers or floats, as a table of some octaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Image
from mase_hw.cells._components import (
    Adder,
    Compare,
    Components,
    Gates,
    Mux,
    Negation,
    Offset,
    Register,
    Shifter,
    Table,
    Zeros,
)
from mase_hw.cells._elementwise import Encoded
from mase_hw.cells._encoder import EXPONENT, encode, scalar_decode, significand_bits
from mase_hw.formats import Encoding, Kind


@dataclass(frozen=True)
class UnaryBlocks(Encoded):
    """An element's place in the table is found and read, and encoded in blocks.

    Attributes:
        low_octave: the first octave in the table.
        octaves: number of octaves.
        word_width: bits of a result's integer.
        word_exponent_width: bits of its exponent, above the integer.
        order_0: order of a positive element below the octaves.
        order_1: order of a negative one.
        order_2: order of a positive element above the octaves.
        order_3: order of a negative one.
        table: the results.
    """

    low_octave: int
    octaves: int
    word_width: int
    word_exponent_width: int
    order_0: int
    order_1: int
    order_2: int
    order_3: int
    table: Image

    @property
    def stages(self) -> int:
        """The place in the table in five registers, the word, the result."""
        return 8

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        return {"TABLE_FILE": ("table", self.table)}

    @property
    def components(self) -> Components:
        """For each lane the place of its element in the table, and the word; an encoder."""
        data, out = self.data_in_0, self.data_out_0
        width, scale = significand_bits(data), data.scale_width
        fraction, count = max(width - 2, 0), self.rows * self.lanes
        leading, row = (width - 1).bit_length(), (2 * self.octaves - 1).bit_length()
        depth = (2 * self.octaves << fraction) + 1
        address, word = (depth - 1).bit_length(), self.word_width + self.word_exponent_width
        octave = min(EXPONENT, scale + 2)
        lane = Components.of(
            Register(1, 4),
            Negation(width),
            Register(width + leading + octave + row + octave + 3 + address),
            Zeros(width, width),
            Shifter(fraction, width - 1),
            Register(fraction, 3),
            Register(1, 3),
            Adder(octave),
            (Offset(octave, 4), 2),
            (Compare(octave, constant=True), 2),
            (Mux(2, octave), 2),
            Gates(row + address),
            Adder(row),
            (Mux(3, octave), 1),
            Register(EXPONENT, 3),
            Adder(EXPONENT),
            Register(EXPONENT),
        )
        if data.kind is Kind.FLOAT:
            lane += scalar_decode(data) + Components.of(
                Register(data.exponent_width, 2), Adder(octave)
            )
        words = Table(depth, word, self.table, stages=2, readers=count)
        shape = self.rows, self.lanes, self.size
        codes = encode(self.word_width, out, self.stages, *shape)
        scales = Components.of((Register(scale, 2), self.rows))
        return lane * count + scales + Components.of(words) + codes

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Rows that a beat's lanes do not divide, blocks of several beats, floats, signs alone."""
        blocks = Encoding(
            4, symmetric=True, block_size=4, scale_width=4, scale_bias=7, scale_codes=15
        )
        words = Image(10, lambda: [number * 37 % 1024 for number in range(25)])
        table = (-2, 3, 6, 4, 1, 0, 1, 2, words)
        signs = replace(blocks, width=2)
        floats = replace(blocks, kind=Kind.FLOAT, width=5, exponent_width=2, maximum_code=15)
        few = (-2, 3, 6, 4, 1, 0, 1, 2, Image(10, lambda: [37 * number for number in range(7)]))
        return (
            cls(blocks, blocks, 4, 2, 7, *table, beats=4),
            cls(blocks, blocks, 2, 1, 6, *table, beats=6),
            cls(signs, blocks, 2, 1, 6, *few, beats=6),
            cls(floats, floats, 2, 1, 7, *table, beats=6),
        )
