"""What the formats of OCP Microscaling share: the scale E8M0, and floats as elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mase_hw.formats._block import BlockFormat, PowerScale
from mase_hw.formats._checks import check_choice, check_integer
from mase_hw.formats._float import FloatElement


def e8m0(width: int = 8) -> PowerScale:
    """Return `2**(code - bias)` with the bias of IEEE 754; 8 bits keep the last code for NaN."""
    bias = (1 << (width - 1)) - 1
    return PowerScale(width, bias, (1 << width) - (width == 8), nan=width == 8)


@dataclass(frozen=True)
class MXFloat(BlockFormat):
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
