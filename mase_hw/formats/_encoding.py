"""How hardware reads and makes the codes of a tensor: one typed value for every number format.

It is `format_t` of `rtl/mase_pkg.sv`, less the fields that its constructors derive; operators and
cells ask for encodings, not for formats by name.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Self, cast


class Rounding(Enum):
    """How a result is rounded; the values are the words of `mase_pkg::rounding_e`."""

    NEAREST_EVEN = "NearestEven"
    NEAREST_UP = "NearestUp"
    FLOOR = "Floor"
    TOWARD_ZERO = "TowardZero"


class Overflow(Enum):
    """What becomes of a result out of range; the values are the words of `mase_pkg::overflow_e`."""

    SATURATE = "Saturate"
    WRAP = "Wrap"


class Family(Enum):
    """The kinds of tensors that hardware tells apart; an operator says which it takes."""

    FIXED = "fixed point"
    FLOAT = "floats"
    LEVELS = "signs of levels"
    SYMMETRIC = "fixed point between equal bounds"
    OFFSET = "integers with a real scale"
    FURTHER = "scalars of further kinds"
    INTEGER_BLOCK = "integers with a shared scale"
    FLOAT_BLOCK = "floats with a shared scale"
    SCALED_BLOCK = "floats with a shared float"


Families = frozenset[Family]
FIXED_POINT = frozenset({Family.FIXED})
SCALARS = frozenset({Family.FIXED, Family.FLOAT, Family.LEVELS, Family.SYMMETRIC, Family.FURTHER})
SCALED = frozenset({Family.OFFSET})
BLOCKS = frozenset({Family.INTEGER_BLOCK, Family.FLOAT_BLOCK})


class Kind(ABC):
    """What a code is: its name, its range, and how hardware reads and makes it.

    Every kind is one object. A further one is a subclass beside its format; its word, constructor,
    decoder and encoder are in `rtl/mase_pkg.sv`.

    Attributes:
        word: its word in `mase_pkg::encoding_e`.
        family: what operators take it as.
        block_family: likewise, of elements that share a scale.
        known_bits: bits of a significand that are the same for all codes.
    """

    INTEGER: ClassVar[Kind]
    FLOAT: ClassVar[Kind]
    LEVELS: ClassVar[Kind]
    SYMMETRIC: ClassVar[Kind]
    OFFSET: ClassVar[Kind]
    _made: ClassVar[dict[type[Kind], Kind]] = {}

    word: ClassVar[str]
    family = Family.FURTHER
    block_family = Family.INTEGER_BLOCK
    known_bits = 0

    def __new__(cls) -> Self:
        return cast(Self, Kind._made.setdefault(cls, super().__new__(cls)))

    def __repr__(self) -> str:
        return self.word

    @abstractmethod
    def limits(self, encoding: Encoding) -> tuple[int, int]:
        """Return the smallest and the largest element in units of its lowest step."""

    def label(self, encoding: Encoding) -> str:
        """Return a short name, for parameters of a design."""
        signed = "" if encoding.signed else "U"
        return f"{signed}{self.word}{encoding.width}x{_minus(encoding.fraction)}"

    def constructor(self, encoding: Encoding) -> str:
        """Return the call of its constructor in `mase_pkg`."""
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", self.word).lower()
        return _call(name, encoding.width, encoding.fraction)

    def significand_bits(self, encoding: Encoding) -> int:
        """Return the bits of a decoded code, `significand_width` of `format_t`."""
        return encoding.width + (not encoding.signed)

    def rounded(self, encoding: Encoding) -> Encoding:
        """Return the fixed point that a cast rounds to before it makes these codes."""
        return replace(encoding, kind=Kind.INTEGER, symmetric=True)

    def gates(self, encoding: Encoding) -> int:
        """Return the gates that make codes of rounded numbers."""
        return encoding.width


@dataclass(frozen=True)
class Encoding:
    """The codes of one tensor.

    Attributes:
        width: bits of an element.
        kind: `INTEGER` fixed point; `FLOAT` sign, exponent and mantissa with denormals; `LEVELS`
            the odd integers from `-(2**width - 1)`; `SYMMETRIC` fixed point without its most
            negative code; `OFFSET` integers around `zero_point`.
        fraction: fraction bits of an element, which is a multiple of `2**-fraction`.
        signed: whether integers are two's complement.
        symmetric: whether results leave out the most negative code.
        rounding: how results are rounded.
        overflow: what results do out of range.
        exponent_width: bits of a float's exponent.
        exponent_bias: its bias.
        maximum_code: the code of the largest float.
        zero_point: the code of zero.
        block_size: elements that share a scale, 0 for none.
        scale_width: bits of that scale.
        scale_is_float: whether the scale is a float instead of an exponent.
        scale_bias: what is subtracted from its code.
        scale_codes: number of its codes.
    """

    width: int
    kind: Kind = field(default_factory=lambda: Kind.INTEGER)
    fraction: int = 0
    signed: bool = True
    symmetric: bool = False
    rounding: Rounding = Rounding.NEAREST_EVEN
    overflow: Overflow = Overflow.SATURATE
    exponent_width: int = 1
    exponent_bias: int = 0
    maximum_code: int = 0
    zero_point: int = 0
    block_size: int = 0
    scale_width: int = 1
    scale_is_float: bool = False
    scale_bias: int = 0
    scale_codes: int = 0

    @property
    def is_block(self) -> bool:
        """Whether elements share a scale."""
        return self.block_size > 0

    @property
    def family(self) -> Family:
        """What hardware tells apart."""
        if self.scale_is_float:
            return Family.SCALED_BLOCK
        return self.kind.block_family if self.is_block else self.kind.family

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest element in units of its lowest step."""
        return self.kind.limits(self)

    @property
    def expression(self) -> str:
        """The call of a function of `mase_pkg` that makes this encoding."""
        block = self.kind.constructor(self)
        if not self.is_block:
            return block
        scale = (self.block_size, self.scale_width, self.scale_bias, self.scale_codes)
        last = (_bit(True),) if self.scale_is_float else ()
        return _call("blocks", block, _bit(self.symmetric), *scale, *last)


def _bit(value: bool) -> str:
    return f"1'b{int(value)}"


def _call(function: str, *arguments: object) -> str:
    return f"mase_pkg::{function}({', '.join(map(str, arguments))})"


def _minus(number: int) -> str:
    return str(number).replace("-", "m")


class _Integer(Kind):
    """Fixed point."""

    word = "Integer"
    family = Family.FIXED

    def limits(self, encoding: Encoding) -> tuple[int, int]:
        top = 1 << (encoding.width - 1)
        return (-top, top - 1) if encoding.signed else (0, 2 * top - 1)

    def label(self, encoding: Encoding) -> str:
        return super().label(encoding).replace(self.word, "Fixed")

    def constructor(self, encoding: Encoding) -> str:
        arguments: list[object] = [encoding.width, encoding.fraction]
        if not encoding.signed:
            arguments.append(_bit(False))
        if encoding.rounding is not Rounding.NEAREST_EVEN:
            arguments.append(f".rounding(mase_pkg::{encoding.rounding.value})")
        if encoding.overflow is not Overflow.SATURATE:
            arguments.append(f".overflow(mase_pkg::{encoding.overflow.value})")
        return _call("fixed", *arguments)

    def rounded(self, encoding: Encoding) -> Encoding:
        return encoding

    def gates(self, encoding: Encoding) -> int:
        return encoding.width if encoding.symmetric else 0


class _Float(Kind):
    """Sign, exponent and mantissa, with denormals."""

    word = "Float"
    family = Family.FLOAT
    block_family = Family.FLOAT_BLOCK

    def limits(self, encoding: Encoding) -> tuple[int, int]:
        bits = encoding.width - 1 - encoding.exponent_width
        stored, mantissa = encoding.maximum_code >> bits, encoding.maximum_code & ((1 << bits) - 1)
        largest = (mantissa | (1 << bits if stored else 0)) << max(stored - 1, 0)
        return -largest, largest

    def label(self, encoding: Encoding) -> str:
        return f"Float{encoding.width}e{encoding.exponent_width}"

    def constructor(self, encoding: Encoding) -> str:
        exponent = (encoding.exponent_width, encoding.exponent_bias)
        return _call("floating", encoding.width, *exponent, encoding.maximum_code)

    def significand_bits(self, encoding: Encoding) -> int:
        return encoding.width - encoding.exponent_width + 1


class _Levels(Kind):
    """The odd integers from `-(2**width - 1)`."""

    word = "Levels"
    family = Family.LEVELS
    known_bits = 1

    def limits(self, encoding: Encoding) -> tuple[int, int]:
        return 1 - (1 << encoding.width), (1 << encoding.width) - 1

    def label(self, encoding: Encoding) -> str:
        return f"Levels{encoding.width}x{_minus(encoding.fraction)}"

    def significand_bits(self, encoding: Encoding) -> int:
        return encoding.width + 1

    def rounded(self, encoding: Encoding) -> Encoding:
        return Encoding(encoding.width, fraction=encoding.fraction - 1, rounding=Rounding.FLOOR)

    def gates(self, encoding: Encoding) -> int:
        return 1


class _Symmetric(_Integer):
    """Fixed point without its most negative code."""

    word = "Symmetric"
    family = Family.SYMMETRIC

    def limits(self, encoding: Encoding) -> tuple[int, int]:
        low, high = super().limits(encoding)
        return (low + 1 if encoding.signed else low), high

    def label(self, encoding: Encoding) -> str:
        return f"Symmetric{encoding.width}x{_minus(encoding.fraction)}"

    def constructor(self, encoding: Encoding) -> str:
        return _call("symmetric", encoding.width, encoding.fraction)


class _Offset(_Integer):
    """Integers around `zero_point`."""

    word = "Offset"
    family = Family.OFFSET

    def label(self, encoding: Encoding) -> str:
        signed = "" if encoding.signed else "U"
        return f"{signed}Offset{encoding.width}z{_minus(encoding.zero_point)}"

    def constructor(self, encoding: Encoding) -> str:
        bits = (_bit(encoding.signed), _bit(encoding.symmetric))
        return _call("offset", encoding.width, encoding.zero_point, *bits)

    def significand_bits(self, encoding: Encoding) -> int:
        return encoding.width + 1

    def rounded(self, encoding: Encoding) -> Encoding:
        return Encoding(encoding.width + 2)


Kind.INTEGER, Kind.FLOAT, Kind.LEVELS = _Integer(), _Float(), _Levels()
Kind.SYMMETRIC, Kind.OFFSET = _Symmetric(), _Offset()
