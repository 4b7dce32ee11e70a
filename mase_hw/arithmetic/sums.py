"""Worst-case bounds of exact sums, and the widths and dtypes that hold them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Elements that are summed at a time.
SUMMED_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest value that any partial sum takes."""

    low: int
    high: int

    @classmethod
    def of_sums(cls, low: Tensor, high: Tensor, start: Tensor | None = None) -> Bounds:
        """Return bounds of `start[o] + sum_i term[o, i]` with `term` in `[low, high]`.

        Every partial sum in any order is covered, because terms that could only shrink the sum
        are left out on either side. Sums are taken in float64, rounded outward.

        Args:
            low: int64 `[results, elements]`, the least value of each term.
            high: int64 `[results, elements]`, the largest value of each term.
            start: int64 `[results]`, or None for zero.
        """
        lowest = low.clamp(max=0).double().sum(dim=1)
        highest = high.clamp(min=0).double().sum(dim=1)
        return cls._outward(lowest, highest, start)

    @classmethod
    def of_products(
        cls, weight: Tensor, low: int, high: int, start: Tensor | None = None
    ) -> Bounds:
        """Return bounds of `start[o] + sum_i weight[o, i] * x` with `x` from `low` to `high`.

        Args:
            weight: int64 `[results, elements]`.
            low: the least factor, not above 0.
            high: the largest factor, not below 0.
            start: int64 `[results]`, or None for zero.
        """
        rows = max(1, SUMMED_ELEMENTS // max(1, weight.shape[1]))
        sums = [
            (part.clamp(min=0).sum(dim=1), part.clamp(max=0).sum(dim=1))
            for part in map(Tensor.double, torch.split(weight, rows))
        ]
        above, below = (torch.cat(part) for part in zip(*sums, strict=True))
        return cls._outward(above * low + below * high, above * high + below * low, start)

    @classmethod
    def _outward(cls, lowest: Tensor, highest: Tensor, start: Tensor | None) -> Bounds:
        if start is not None:
            lowest = lowest + start.clamp(max=0)
            highest = highest + start.clamp(min=0)
        if not lowest.numel():
            return cls(0, 0)
        slack = 1.0 + 2.0**-40
        return cls(int(lowest.min().item() * slack), int(highest.max().item() * slack))


def width_for(bounds: Bounds) -> int:
    """Return the bits of a two's complement number that holds every value in `bounds`."""
    return max(bounds.high.bit_length(), (-bounds.low - 1).bit_length() if bounds.low else 0) + 1


def exact_dtype(bounds: Bounds) -> torch.dtype:
    """Return the fastest dtype in which sums within `bounds` are exact in any order."""
    largest = max(abs(bounds.low), abs(bounds.high))
    if largest < 1 << 24:
        return torch.float32
    return torch.float64 if largest < 1 << 53 else torch.int64


def narrowest(codes: Tensor) -> torch.dtype:
    """Return the narrowest dtype that holds int64 codes."""
    low, high = (int(end) for end in torch.aminmax(codes))
    kinds = (torch.int8, torch.int16, torch.int32, torch.int64)
    return next(
        kind for kind in kinds if torch.iinfo(kind).min <= low <= high <= torch.iinfo(kind).max
    )
