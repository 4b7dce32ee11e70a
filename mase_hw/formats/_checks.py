"""Checks of the fields of a number format: every message says the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mase_hw._checks import check_bool as check_any_bool
from mase_hw._checks import check_choice as check_any_choice
from mase_hw._checks import check_integer as check_any_integer
from mase_hw.errors import FormatError


def check_integer(name: str, field: str, value: object, low: int, high: int) -> None:
    """Raise unless `value` is an integer from `low` to `high`."""
    check_any_integer(f"{name}: {field}", value, low, high, FormatError)


def check_bool(name: str, field: str, value: object) -> None:
    """Raise unless `value` is true or false."""
    check_any_bool(f"{name}: {field}", value, FormatError)


def check_positive(name: str, field: str, value: object) -> None:
    """Raise unless `value` is a finite number above zero."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type, operator]
        raise FormatError(f"{name}: {field} is {value!r}; allowed: a finite number above 0")


def check_choice(name: str, field: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless `value` is one of `choices`."""
    check_any_choice(f"{name}: {field}", value, choices, FormatError)
