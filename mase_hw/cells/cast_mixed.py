"""Numbers of any encoding in any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell
from mase_hw.cells._components import Adder, Components, Offset, Product, Register
from mase_hw.cells._elementwise import Encoded
from mase_hw.cells._encoder import (
    EXPONENT,
    encode,
    scalar_decode,
    shift_bits,
    significand_bits,
    varying_bits,
)
from mase_hw.formats import Encoding, Kind


@dataclass(frozen=True)
class CastMixed(Encoded):
    """Codes are decoded, multiplied where a scale is no power of two, and encoded.

    Attributes:
        multiplier_width: bits of the multiplier, 0 for none.
        multiplier: the multiplier.
        multiplier_shift: its fraction bits.
    """

    multiplier_width: int = 0
    multiplier: int = 1
    multiplier_shift: int = 0

    @property
    def stages(self) -> int:
        """Decoded codes, times a float scale, less the zero point, times the multiplier."""
        return 2 + self.data_in_0.scale_is_float + (self.multiplier_width > 0)

    @property
    def components(self) -> Components:
        """For each lane a decoded code, its exponent and its multiple; an encoder."""
        code, out = self.data_in_0, self.data_out_0
        bits, shift = significand_bits(code), shift_bits(code)
        count = self.rows * self.lanes
        scale = code.scale_width
        # A scale, and a shift beside it, with a sign.
        exponent = min(EXPONENT, max(scale, shift + (shift > 0)) + 2)
        known = not (code.is_block or shift)
        # Where nothing happens to a significand, its register is the first of those that follow.
        kept = not (code.scale_is_float or code.zero_point or self.multiplier_width)
        lane = scalar_decode(code) + Components.of(
            Register(varying_bits(code) * (not kept) + shift)
        )
        row = Components.of(Register(scale))
        wide = bits
        if code.scale_is_float:
            factor = Encoding(8, Kind.FLOAT, exponent_width=4)
            wide = bits + significand_bits(factor)
            row += scalar_decode(factor) + Components.of(Register(significand_bits(factor) + 4))
            lane += Components.of(Register(bits + shift), Product(bits, significand_bits(factor)))
        if code.zero_point:
            lane += Components.of(Offset(wide, code.zero_point.bit_count()))
        if not known:
            lane += Components.of(Register(exponent), Adder(exponent))
        if self.multiplier_width:
            lane += Components.of(Register(wide), Product(wide, self.multiplier_width + 1))
            wide += self.multiplier_width + 1
            lane += Components.of(Register(exponent * (not known)))
        shape = self.rows, self.lanes, self.size
        differ = 0 if known and not out.is_block and out.kind is not Kind.FLOAT else EXPONENT
        codes = encode(wide, out, self.stages, *shape, exponent=differ, registered=1 + kept)
        return lane * count + row * self.rows + codes

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """From and to blocks, floats, levels and integers around a zero point."""
        fixed, levels = Encoding(8, fraction=4), Encoding(2, Kind.LEVELS, fraction=1)
        small = Encoding(6, Kind.FLOAT, exponent_width=3, exponent_bias=3, maximum_code=31)
        offset = Encoding(8, Kind.OFFSET, signed=False, zero_point=7)
        blocks = Encoding(6, block_size=4, scale_width=5, scale_bias=15, scale_codes=31)
        return (
            cls(fixed, blocks, 2, 1, 7, beats=12),
            cls(blocks, small, 4, 2, 7, beats=8),
            cls(offset, fixed, 3, 1, 3, 5, 19, 6, beats=5),
            cls(levels, offset, 2, 1, 2, beats=4),
        )
