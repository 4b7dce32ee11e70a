"""What formats of scaled whole numbers share: unsigned bit patterns of signed or unsigned codes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.formats._base import Format, StreamField


@dataclass(frozen=True)
class CodeFormat(Format):
    """A format whose codes are all integers from `code_range[0]` to `code_range[1]`."""

    @property
    def code_bits(self) -> int:
        """Bits of a code."""
        raise NotImplementedError

    @property
    def code_range(self) -> tuple[int, int]:
        """The smallest and the largest code."""
        raise NotImplementedError

    @property
    def bits_per_element(self) -> float:
        return float(self.code_bits)

    def stream_fields(self, lanes: int, rows: int = 1) -> tuple[StreamField, ...]:
        return (StreamField("", lanes, self.code_bits),)

    def to_fields(self, codes: Tensor, rows: int = 1) -> dict[str, Tensor]:
        return {"": codes & ((1 << self.code_bits) - 1)}

    def from_fields(self, fields: Mapping[str, Tensor]) -> Tensor:
        if self.code_range[0] >= 0:
            return fields[""]
        sign = 1 << (self.code_bits - 1)
        return (fields[""] ^ sign) - sign

    def random_codes(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        low, high = self.code_range
        return torch.randint(low, high + 1, tuple(shape), generator=generator)


def power_exponent(scale: float) -> int | None:
    """Return the exponent of a power of two, None for any other number."""
    mantissa, exponent = math.frexp(scale)
    return exponent - 1 if mantissa == 0.5 else None
