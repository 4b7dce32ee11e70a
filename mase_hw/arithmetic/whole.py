"""Fixed point without a fraction, for whole numbers whose bounds are known."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mase_hw.formats import Format
from mase_hw.formats.fixed import MAX_EXACT_BITS, MIN_WIDTH_BITS, Fixed


def is_whole(values: Tensor) -> bool:
    """True if all are finite and whole, of whatever dtype: a Python number has none."""
    if not values.is_floating_point():
        return True
    return bool(values.isfinite().all()) and bool((values == values.round()).all())


def bounds_of(values: Tensor) -> tuple[int, int]:
    """Return the least and the largest of whole numbers."""
    low, high = values.aminmax()
    return int(low), int(high)


def whole_format(low: int, high: int, least: int = 0) -> Fixed:
    """Return the narrowest format of the numbers from `low` to `high`, of 62 bits at most.

    Args:
        low: the least number; below zero the format has a sign.
        high: the largest.
        least: bits that it has at least.
    """
    bits = max((low + 1 if low < 0 else 0).bit_length(), high.bit_length()) + (low < 0)
    return Fixed(min(MAX_EXACT_BITS, max(MIN_WIDTH_BITS, least, bits)), 0, signed=low < 0)


def joined(formats: Sequence[Format | None], *, signed: bool) -> Fixed | None:
    """Return the narrowest format of what formats of whole numbers hold; None for other formats.

    Args:
        formats: the formats.
        signed: whether there are numbers below zero.
    """
    whole = [item for item in formats if isinstance(item, Fixed) and item.frac_width == 0]
    if not whole or len(whole) < len(formats):
        return None
    low = min(item.minimum_code for item in whole) if signed else 0
    return whole_format(low, max(item.maximum_code for item in whole))
