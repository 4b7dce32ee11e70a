"""The space of number formats that a search tries in linear layers."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw._kinds import Record
from mase_hw.errors import FormatError
from mase_hw.formats import format_class

WIDTHS = [4, 6, 8]
# What the narrowest width leaves for an exponent beside a mantissa.
EXPONENT_WIDTH = 2
BIASES = [1, 3, 5]
# Sums are rounded to a format where the next layer reads them; one or two bits would tie.
FIXED = {"data_out_name": "fixed", "data_out_width": 16, "bias_name": "fixed", "bias_width": 8}


def entry(names: Sequence[str]) -> Record:
    """Return the entry in which a layer takes one of several formats, and its widths."""
    small = [name for name in names if not _has_every_width(name)]
    # Nothing else moves the range of these formats to that of the weights.
    moved = [name for name in small if "exponent_bias" in format_class(name).field_names()]
    found: Record = {"name": list(names), **FIXED}
    for operand in ("data_in", "weight"):
        if any(map(_has_width, names)):
            found[f"{operand}_width"] = WIDTHS
        if small:
            given = {"choices": [EXPONENT_WIDTH], "when": {"name": small}}
            found[f"{operand}_exponent_width"] = given
    if moved:
        found["weight_exponent_bias"] = {"choices": BIASES, "when": {"name": moved}}
    return found


def _has_every_width(name: str) -> bool:
    """Return true when the widths leave room for the format's other fields as they are."""
    try:
        format_class(name).fit(-1.0, 1.0, **({"width": min(WIDTHS)} if _has_width(name) else {}))
    except FormatError:
        return False
    return True


def _has_width(name: str) -> bool:
    return "width" in format_class(name).field_names()
