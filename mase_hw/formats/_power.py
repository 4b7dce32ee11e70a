"""Scales that are powers of two, which integer arithmetic handles exactly."""

from __future__ import annotations

import math


def power_exponent(scale: float) -> int | None:
    """Return the exponent of a power of two, None for any other number."""
    mantissa, exponent = math.frexp(scale)
    return exponent - 1 if mantissa == 0.5 else None
