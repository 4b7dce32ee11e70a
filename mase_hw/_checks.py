"""Checks of values that users give: every message says what, its value, and what is allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mase_hw.errors import ConfigError, MaseError
from mase_hw.registry import nearest


def check_integer(
    what: str,
    value: object,
    least: int,
    most: int | None = None,
    error: type[MaseError] = ConfigError,
) -> int:
    """Return a value that is an integer from `least`, and to `most` if that is given; or raise."""
    given = value if isinstance(value, int) and not isinstance(value, bool) else least - 1
    if least <= given and (most is None or given <= most):
        return given
    legal = f"a number from {least}" if most is None else f"an integer from {least} to {most}"
    raise error(f"{what} is {value!r}; allowed: {legal}")


def check_bool(what: str, value: object, error: type[MaseError] = ConfigError) -> None:
    """Raise unless a value is true or false."""
    if not isinstance(value, bool):
        raise error(f"{what} is {value!r}; allowed: true, false")


def check_share(what: str, value: object, *, below: bool = True) -> float:
    """Return a value that is a number from 0 to below 1, or to 1; or raise."""
    given = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
    if 0 <= given < 1 or (given == 1 and not below):
        return given
    raise ConfigError(f"{what} is {value!r}; allowed: from 0 to {'below ' if below else ''}1")


def check_choice(
    what: str, value: object, choices: Collection[str], error: type[MaseError] = ConfigError
) -> None:
    """Raise unless a value is one of few words."""
    if value not in choices:
        raise error(f"{what} is {value!r}; allowed: {', '.join(choices)}")


def check_keys(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise unless every key that was given is known, as in "training has no 'epoch'"."""
    for key in given:
        if key not in known:
            raise ConfigError(f"{what} has no {key!r}; {nearest(str(key), known)}")
