"""How hardware reads and makes the codes of a tensor: one typed value for every number format.

It is `format_t` of `rtl/mase_pkg.sv`, less the fields that its constructors derive; operators and
cells ask for encodings, not for formats by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a code is; the values are the words of `mase_pkg::encoding_e`."""

    INTEGER = "Integer"
    FLOAT = "Float"
    LEVELS = "Levels"
    SYMMETRIC = "Symmetric"
    OFFSET = "Offset"


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
    INTEGER_BLOCK = "integers with a shared scale"
    FLOAT_BLOCK = "floats with a shared scale"
    SCALED_BLOCK = "floats with a shared float"


Families = frozenset[Family]
FIXED_POINT = frozenset({Family.FIXED})
SCALARS = frozenset({Family.FIXED, Family.FLOAT, Family.LEVELS, Family.SYMMETRIC})
SCALED = frozenset({Family.OFFSET})
BLOCKS = frozenset({Family.INTEGER_BLOCK, Family.FLOAT_BLOCK})


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
    kind: Kind = Kind.INTEGER
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
        if self.is_block:
            floats = self.kind is Kind.FLOAT
            return Family.FLOAT_BLOCK if floats else Family.INTEGER_BLOCK
        return {
            Kind.INTEGER: Family.FIXED,
            Kind.FLOAT: Family.FLOAT,
            Kind.LEVELS: Family.LEVELS,
            Kind.SYMMETRIC: Family.SYMMETRIC,
            Kind.OFFSET: Family.OFFSET,
        }[self.kind]

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest element in units of its lowest step."""
        top = 1 << (self.width - 1)
        if self.kind is Kind.FLOAT:
            bits = self.width - 1 - self.exponent_width
            stored, mantissa = self.maximum_code >> bits, self.maximum_code & ((1 << bits) - 1)
            largest = (mantissa | (1 << bits if stored else 0)) << max(stored - 1, 0)
            return -largest, largest
        if self.kind is Kind.LEVELS:
            return 1 - 2 * top, 2 * top - 1
        if not self.signed:
            return 0, 2 * top - 1
        return (1 - top if self.kind is Kind.SYMMETRIC else -top), top - 1

    @property
    def expression(self) -> str:
        """The call of a function of `mase_pkg` that makes this encoding."""
        made = {
            Kind.INTEGER: self._fixed,
            Kind.FLOAT: self._floating,
            Kind.LEVELS: lambda: _call("levels", self.width, self.fraction),
            Kind.SYMMETRIC: lambda: _call("symmetric", self.width, self.fraction),
            Kind.OFFSET: self._offset,
        }[self.kind]()
        if not self.is_block:
            return made
        scale = (self.block_size, self.scale_width, self.scale_bias, self.scale_codes)
        last = (_bit(True),) if self.scale_is_float else ()
        return _call("blocks", made, _bit(self.symmetric), *scale, *last)

    def _fixed(self) -> str:
        given: list[object] = [self.width, self.fraction]
        if not self.signed:
            given.append(_bit(False))
        if self.rounding is not Rounding.NEAREST_EVEN:
            given.append(f".rounding(mase_pkg::{self.rounding.value})")
        if self.overflow is not Overflow.SATURATE:
            given.append(f".overflow(mase_pkg::{self.overflow.value})")
        return _call("fixed", *given)

    def _floating(self) -> str:
        exponent = (self.exponent_width, self.exponent_bias)
        return _call("floating", self.width, *exponent, self.maximum_code)

    def _offset(self) -> str:
        return _call("offset", self.width, self.zero_point, _bit(self.signed), _bit(self.symmetric))


def _bit(value: bool) -> str:
    return f"1'b{int(value)}"


def _call(function: str, *arguments: object) -> str:
    return f"mase_pkg::{function}({', '.join(map(str, arguments))})"
