"""Formats of OCP Microscaling: integers and floats in blocks that share a power-of-two scale.

MXFP4, MXFP6 and MXFP8: floats of 4, 6 and 8 bits in blocks that share a scale.

Value set: `element * 2**X` with `X` from -127 to 127 in E8M0 code. Block rule: see
`mase_hw.formats._block`, `emax` being the exponent of the element's maximum. Elements round to
nearest, ties to even, saturate, and keep denormals and both zeros. Those of 4 and 6 bits have
neither infinities nor NaN, which `encode` refuses; in 8 bits a NaN is an element's NaN, and
infinities saturate.

Source: OCP Microscaling Formats (MX) 1.0, sections 5 and 6.

MXINT: integers of 4, 6, 8 or any number of bits in blocks that share a scale.

Value set: `code * 2**-(width - 2) * 2**X`, two's complement codes, `X` from -127 to 127 in E8M0
code. Block rule: see `mase_hw.formats._block` with `emax = 0`. Elements round to nearest, ties to
even. They saturate at plus and minus `2**(width - 1) - 1`; with `symmetric` false also the most
negative code is used, which the standard leaves open (with it, values that are already
representable may lose a bit when they are rounded again). Zero has one code; infinities saturate;
NaN is refused.

Source: OCP Microscaling Formats (MX) 1.0, sections 5.3.4 and 6.3; widths 4 and 6 by analogy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mase_hw._kinds import Table
from mase_hw.formats._block import BlockFormat, PowerScale
from mase_hw.formats._checks import check_bool, check_choice, check_integer
from mase_hw.formats._float import FloatElement
from mase_hw.formats._integer import IntegerElement


def e8m0(width: int = 8) -> PowerScale:
    """Return `2**(code - bias)` with the bias of IEEE 754; 8 bits keep the last code for NaN."""
    bias = (1 << (width - 1)) - 1
    return PowerScale(width, bias, (1 << width) - (width == 8), nan=width == 8)


@dataclass(frozen=True)
class _MXFloat(BlockFormat):
    """Floats that share a scale E8M0. Subclasses list the layouts of an element.

    Attributes:
        element_format: the element's layout by name; the first of `elements` when empty.
        block_size: elements that share a scale, from 1.
        axis: dimension along which a block lies.
        exponent_width: bits of the scale, 2 to 8; 8 is the standard's.
    """

    inherited = ("element_format", "block_size", "exponent_width")
    elements: ClassVar[dict[str, FloatElement]]

    element_format: str = ""
    block_size: int = 32
    axis: int = -1
    exponent_width: int = 8

    def __post_init__(self) -> None:
        if not self.element_format:
            object.__setattr__(self, "element_format", next(iter(self.elements)))
        check_choice(self.name, "element_format", self.element_format, tuple(self.elements))
        check_integer(self.name, "exponent_width", self.exponent_width, 2, 8)
        self._set(self.elements[self.element_format], e8m0(self.exponent_width))

    @property
    def blocking(self) -> tuple[int, int]:
        return self.block_size, self.axis

    def __str__(self) -> str:
        """Return a short name such as `mxfp8<e4m3,32>`."""
        return f"{self.name}<{self.element_format},{self.block_size}>"


@dataclass(frozen=True)
class MXFP4(_MXFloat):
    """E2M1 (maximum 6); fields as in `_MXFloat`."""

    name = "mxfp4"
    abbreviation = "mxfp"
    elements: ClassVar[dict[str, FloatElement]] = {"e2m1": FloatElement(2, 1, 1)}


@dataclass(frozen=True)
class MXFP6(_MXFloat):
    """E2M3 (maximum 7.5) or E3M2 (maximum 28); fields as in `_MXFloat`."""

    name = "mxfp6"
    abbreviation = "mxfp"
    elements: ClassVar[dict[str, FloatElement]] = {
        "e2m3": FloatElement(2, 3, 1),
        "e3m2": FloatElement(3, 2, 3),
    }


@dataclass(frozen=True)
class MXFP8(_MXFloat):
    """E4M3 (maximum 448) or E5M2 (maximum 57344); fields as in `_MXFloat`."""

    name = "mxfp8"
    abbreviation = "mxfp"
    elements: ClassVar[dict[str, FloatElement]] = {
        "e4m3": FloatElement(4, 3, 7, "nan"),
        "e5m2": FloatElement(5, 2, 15, "ieee"),
    }


# Widths and sizes of blocks that a choice of formats tries, of those the first that divides a row.
TRIED_WIDTHS = range(4, 11)
TRIED_BLOCKS = (16, 8, 4)


@dataclass(frozen=True)
class MXInt(BlockFormat):
    """Microscaling integers.

    Attributes:
        width: bits of an element, sign included, 2 to 16.
        block_size: elements that share a scale, from 1.
        axis: dimension along which a block lies.
        exponent_width: bits of the scale, 2 to 8; 8 is the standard's.
        symmetric: whether the most negative code is left out.

    Examples:
        >>> MXInt(8, 2).round_values(torch.tensor([1.0, 0.01, 100.0, 0.3]))
        tensor([1.0000e+00, 1.5625e-02, 1.0000e+02, 0.0000e+00])
    """

    name = "mxint"
    abbreviation = "mxint"
    inherited = ("width", "block_size", "exponent_width", "symmetric")

    width: int = 8
    block_size: int = 32
    axis: int = -1
    exponent_width: int = 8
    symmetric: bool = True

    def __post_init__(self) -> None:
        check_integer(self.name, "width", self.width, 2, 16)
        check_integer(self.name, "exponent_width", self.exponent_width, 2, 8)
        check_bool(self.name, "symmetric", self.symmetric)
        self._set(IntegerElement(self.width, self.symmetric), e8m0(self.exponent_width))

    @property
    def blocking(self) -> tuple[int, int]:
        return self.block_size, self.axis

    @classmethod
    def choices(cls, row: int, channel_axis: int | None = None) -> Sequence[Table]:
        """Return the widths of `TRIED_WIDTHS` in blocks that divide a row."""
        sizes = [size for size in TRIED_BLOCKS if row % size == 0][:1]
        return [{"width": width, "block_size": size} for size in sizes for width in TRIED_WIDTHS]
