"""No quantisation: values pass through.

Value set: everything. Values stay as they are in their own dtype. A code is the bit pattern of
IEEE 754 binary32; data in float64 that binary32 does not hold has no code. Infinities and NaN pass
and have codes.

Source: IEEE 754-2019, section 3.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats._base import Format, StreamField
from mase_hw.formats._float import FloatElement

BINARY32 = FloatElement(8, 23, 127, "ieee", saturate=False)


@dataclass(frozen=True)
class Unquantized(Format):
    """Values pass through as float32, without rounding."""

    name = "none"
    abbreviation = "none"
    inherited = ()
    rounds = False

    def __str__(self) -> str:
        return "none"

    @property
    def bits_per_element(self) -> float:
        return 32.0

    def round_values(self, values: Tensor) -> Tensor:
        return values.clone()

    def headroom(self, values: Tensor) -> Tensor:
        return torch.zeros_like(values)

    def encode(self, values: Tensor) -> Tensor:
        """Return the bit patterns of binary32."""
        narrow = values.detach().float()
        if not torch.equal(narrow.to(values.dtype).nan_to_num(), values.detach().nan_to_num()):
            raise FormatError("none: codes are of binary32, which does not hold this data")
        return narrow.contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF

    def decode(self, codes: Tensor) -> Tensor:
        signed = (codes ^ (1 << 31)) - (1 << 31)
        return signed.to(torch.int32).view(torch.float32).double()

    def from_fixed(self, codes: Tensor, frac_width: int) -> Tensor:
        return BINARY32.from_scaled(codes, torch.full_like(codes, -frac_width))

    def stream_fields(self, lanes: int, rows: int = 1) -> tuple[StreamField, ...]:
        return (StreamField("", lanes, 32),)

    def to_fields(self, codes: Tensor, rows: int = 1) -> dict[str, Tensor]:
        return {"": codes}

    def from_fields(self, fields: Mapping[str, Tensor]) -> Tensor:
        return fields[""]

    @classmethod
    def fit(cls, minimum: float, maximum: float, **fields: object) -> Unquantized:
        return cls(**fields)

    def random_codes(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return BINARY32.random_codes(tuple(shape), generator)
