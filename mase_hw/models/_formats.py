"""Number formats that several models share."""

from __future__ import annotations

from collections.abc import Mapping

EIGHT_BITS: Mapping[str, object] = {
    "by": "type",
    "default": {
        "config": {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
    },
}
