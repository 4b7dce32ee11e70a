"""Checks of the fields of a number format: every message says the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mase_hw.errors import FormatError


def check_integer(name: str, field: str, value: object, low: int, high: int) -> None:
    """Raise unless `value` is an integer from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise FormatError(f"{name}: {field} is {value!r}; allowed: an integer from {low} to {high}")


def check_bool(name: str, field: str, value: object) -> None:
    """Raise unless `value` is true or false."""
    if not isinstance(value, bool):
        raise FormatError(f"{name}: {field} is {value!r}; allowed: true, false")


def check_positive(name: str, field: str, value: object) -> None:
    """Raise unless `value` is a finite number above zero."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type, operator]
        raise FormatError(f"{name}: {field} is {value!r}; allowed: a finite number above 0")


def check_choice(name: str, field: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        raise FormatError(f"{name}: {field} is {value!r}; allowed: {', '.join(choices)}")
