"""Number formats, found by walking this folder and the entry points `mase_hw.formats`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from mase_hw.errors import FormatError
from mase_hw.formats._base import Format, StreamField
from mase_hw.formats._block import BlockFormat, joined
from mase_hw.formats._encoding import (
    BLOCKS,
    FIXED_POINT,
    SCALARS,
    SCALED,
    Encoding,
    Families,
    Family,
    Kind,
    Overflow,
    Rounding,
)
from mase_hw.formats._float import FloatElement
from mase_hw.formats._minifloat import FloatFormat
from mase_hw.formats._serving import serving_formats
from mase_hw.registry import discover, nearest

__all__ = [
    "BLOCKS",
    "DEFAULT_FORMAT",
    "FIXED_POINT",
    "SCALARS",
    "SCALED",
    "BlockFormat",
    "Encoding",
    "Families",
    "Family",
    "FloatElement",
    "FloatFormat",
    "Format",
    "Kind",
    "Overflow",
    "Rounding",
    "StreamField",
    "family_of",
    "format_class",
    "formats",
    "joined",
    "make_format",
    "names_in",
    "serving_formats",
]


# What a configuration that names no format means.
DEFAULT_FORMAT = "fixed"


@cache
def formats() -> dict[str, type[Format]]:
    """Return every format by its name."""
    return {cls.name: cls for cls in discover(__name__, Format, "mase_hw.formats")}  # type: ignore[type-abstract]


def format_class(name: str) -> type[Format]:
    """Return the format called `name`, by name or alias.

    Raises:
        FormatError: when there is none; the message offers the nearest names.
    """
    for cls in formats().values():
        if name == cls.name or name in cls.aliases:
            return cls
    words = [word for cls in formats().values() for word in (cls.name, *cls.aliases)]
    raise FormatError(f"no number format is called {name!r}; {nearest(name, words)}")


@cache
def family_of(cls: type[Format]) -> Family | None:
    """Return the family of a format's encodings; None for one that has no codes in hardware."""
    try:
        return cls.fit(-1.0, 1.0).encoding.family
    except FormatError:
        return None


@cache
def names_in(families: Families) -> tuple[str, ...]:
    """Return the names of the formats of some families, in alphabetical order."""
    return tuple(name for name, cls in sorted(formats().items()) if family_of(cls) in families)


def make_format(description: Mapping[str, object]) -> Format:
    """Return the format described by `{"name": ..., field: value, ...}`.

    Raises:
        FormatError: for an unknown name, an unknown field or a value out of range.
    """
    fields = dict(description)
    cls = format_class(str(fields.pop("name", DEFAULT_FORMAT)))
    unknown = sorted(set(fields) - set(cls.field_names()))
    if unknown:
        raise FormatError(
            f"format {cls.name} has no parameter {unknown[0]!r}; "
            f"{nearest(unknown[0], cls.field_names())}"
        )
    return cls(**fields)
