"""What every scalar float format shares: a `Format` around one float layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats._base import Format, StreamField
from mase_hw.formats._checks import check_bool, check_integer
from mase_hw.formats._encoding import Encoding, Kind
from mase_hw.formats._float import FloatElement

MAX_WIDTH_BITS = 24
MAX_EXPONENT_WIDTH = 9
MAX_BIAS = 300


def default_bias(exponent_width: int) -> int:
    """Return the bias of IEEE 754, half the exponent codes."""
    return (1 << (exponent_width - 1)) - 1


def checked_bias(name: str, exponent_width: int, bias: int | None) -> int:
    """Return the bias of a format, that of IEEE 754 where none is asked for.

    Raises:
        FormatError: naming the format, for a bias beyond `MAX_BIAS`.
    """
    if bias is None:
        return default_bias(exponent_width)
    check_integer(name, "exponent_bias", bias, -MAX_BIAS, MAX_BIAS)
    return bias


@dataclass(frozen=True)
class FloatFormat(Format):
    """A scalar float format. Subclasses set `element` in their constructor."""

    def _set_element(self, element: FloatElement) -> None:
        object.__setattr__(self, "element", element)

    @property
    def layout(self) -> FloatElement:
        """Sign, exponent and mantissa of the codes."""
        element: FloatElement = self.__dict__["element"]
        return element

    def __str__(self) -> str:
        """Return a short name such as `minifloat_denorm<8,4>` (width, exponent width)."""
        return f"{self.name}<{self.layout.width},{self.layout.exponent_width}>"

    @property
    def bits_per_element(self) -> float:
        return float(self.layout.width)

    def round_values(self, values: Tensor) -> Tensor:
        return self.layout.round(values)

    def headroom(self, values: Tensor) -> Tensor:
        """Count from half a step beyond the largest number."""
        return self.layout.clip - values.abs()

    def encode(self, values: Tensor) -> Tensor:
        """Return int64 codes; NaN is refused where it has no code."""
        if self.layout.nan_code is None and bool(torch.isnan(values).any()):
            raise FormatError(f"{self} has no code for NaN; the data holds at least one")
        return self.layout.encode(values.detach())

    def decode(self, codes: Tensor) -> Tensor:
        return self.layout.decode(codes)

    def from_fixed(self, codes: Tensor, frac_width: int) -> Tensor:
        return self.layout.from_scaled(codes, torch.full_like(codes, -frac_width))

    def from_scaled(self, integers: Tensor, exponents: Tensor) -> Tensor:
        """Round exact integers of their own exponents, once."""
        return self.layout.from_scaled(integers, exponents)

    def significands(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return int64 significands with a sign, and exponents of two."""
        return self.layout.scaled(codes)

    @property
    def integer_fraction(self) -> int:
        return -self.layout.lsb_exponent

    def to_integers(self, codes: Tensor) -> Tensor:
        """Return the values in units of `2**-integer_fraction`."""
        return self.layout.integers(codes)

    def stream_fields(self, lanes: int, rows: int = 1) -> tuple[StreamField, ...]:
        return (StreamField("", lanes, self.layout.width),)

    def to_fields(self, codes: Tensor, rows: int = 1) -> dict[str, Tensor]:
        return {"": codes}

    def from_fields(self, fields: Mapping[str, Tensor]) -> Tensor:
        return fields[""]

    @property
    def encoding(self) -> Encoding:
        layout = self.layout
        return Encoding(
            layout.width,
            Kind.FLOAT,
            exponent_width=layout.exponent_width,
            exponent_bias=layout.bias,
            maximum_code=layout.maximum_code,
        )

    def random_codes(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return self.layout.random_codes(tuple(shape), generator)

    @classmethod
    def fit(cls, minimum: float, maximum: float, **fields: object) -> Self:
        """Return the format; its range does not follow the data."""
        return cls(**fields)


@dataclass(frozen=True)
class FloatPreset(FloatFormat):
    """A float layout without parameters.

    Attributes:
        saturate: whether overflow gives the largest number.
    """

    abbreviation = "minifloat"
    inherited = ("saturate",)
    preset: ClassVar[FloatElement]

    saturate: bool = True

    def __post_init__(self) -> None:
        check_bool(self.name, "saturate", self.saturate)
        base = self.preset
        self._set_element(
            FloatElement(
                base.exponent_width, base.mantissa_width, base.bias, base.specials, self.saturate
            )
        )

    def __str__(self) -> str:
        return self.name
