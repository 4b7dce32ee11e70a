"""Worst-case bounds of exact sums, and the widths and dtypes that hold them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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
        if start is not None:
            lowest = lowest + start.clamp(max=0)
            highest = highest + start.clamp(min=0)
        if not low.numel():
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
