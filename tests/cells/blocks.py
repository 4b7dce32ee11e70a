"""Formats of blocks by lists of their numbers, written apart from `mase_hw.formats`."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mase_hw.formats import Encoding, Format, Kind, make_format
from tests.formats.block_rule import Numbers, encoded, floats, integers, packed


@dataclass(frozen=True)
class Block:
    """The bits of a scale and of elements, and the values of these."""

    width: int
    scale: int
    bits: tuple[int, ...]
    values: tuple[Fraction, ...]

    def beats(self, lanes: int) -> list[int]:
        """Return it as it streams, `lanes` elements at a time, each time with its scale."""
        starts = range(0, len(self.bits), lanes)
        return [packed(self.width, self.scale, self.bits[first:][:lanes]) for first in starts]


@dataclass(frozen=True)
class Blocks:
    """A format.

    Attributes:
        number: the format.
        elements: the values of elements by their bits.
        bias: what is subtracted from a scale's code.
        codes: how many there are.
    """

    number: Format
    elements: Numbers
    bias: int
    codes: int

    def __str__(self) -> str:
        return f"{self.number} x{self.codes}"

    @property
    def encoding(self) -> Encoding:
        return self.number.encoding

    @property
    def step(self) -> Fraction:
        """The least element above zero, of which others are multiples."""
        return min(value for value in self.elements.values() if value > 0)

    def exponent(self, block: Block) -> int:
        return block.scale - self.bias

    def above(self, block: Block) -> int:
        """Return how many places the first element's lowest bit is above the step: of floats."""
        encoding = self.encoding
        if encoding.kind is not Kind.FLOAT:
            return 0
        stored = block.bits[0] >> (encoding.width - 1 - encoding.exponent_width)
        return max(stored % 2**encoding.exponent_width - 1, 0)

    def every(self) -> list[Block]:
        found = []
        chosen = itertools.product(self.elements.items(), repeat=self.encoding.block_size)
        for scale, elements in itertools.product(range(self.codes), list(chosen)):
            factor = Fraction(2) ** (scale - self.bias)
            bits, values = zip(*elements, strict=True)
            scaled = tuple(value * factor for value in values)
            found.append(Block(self.encoding.width, scale, bits, scaled))
        return found

    def nearest(self, values: Sequence[Fraction]) -> Block:
        shared, bits = encoded(self.elements, -self.bias, self.codes - 1 - self.bias, values)
        found = tuple(self.elements[code] * Fraction(2) ** shared for code in bits)
        return Block(self.encoding.width, shared + self.bias, tuple(bits), found)


def integer_blocks(width: int, exponent_width: int, size: int) -> Blocks:
    """Return MXINT, or block floating point, which has scales of one bit, too."""
    name = "mxint" if exponent_width > 1 else "block_fp"
    fields = {"width": width, "exponent_width": exponent_width, "block_size": size}
    bias = 2 ** (exponent_width - 1) - 1
    return Blocks(make_format({"name": name, **fields}), integers(width), bias, 2**exponent_width)


def float_blocks(exponent_width: int, mantissa_width: int, bias_width: int, size: int) -> Blocks:
    fields = {
        "name": "block_minifloat",
        "width": 1 + exponent_width + mantissa_width,
        "exponent_width": exponent_width,
        "exponent_bias_width": bias_width,
        "block_size": size,
    }
    elements = floats(exponent_width, mantissa_width)
    return Blocks(make_format(fields), elements, 2 ** (bias_width - 1) - 1, 2**bias_width)
