"""Passes: functions from a graph and arguments to a graph and information; see README.md.

Every pass can be imported from here: `from mase_hw.passes import quantize_transform_pass`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mase_hw.errors import ConfigError
from mase_hw.passes._elsewhere import ELSEWHERE
from mase_hw.registry import modules


def __getattr__(name: str) -> Any:
    """Find a pass in its file at its first use.

    Raises:
        ConfigError: for a pass of other flows, with the line that does the same.
    """
    if name in ELSEWHERE:
        # An AttributeError loses its message in `from mase_hw.passes import`.
        raise ConfigError(f"{name} is not a pass here; write {ELSEWHERE[name]}")
    if name.endswith("_pass"):
        for module in modules(__name__):
            found = getattr(import_module(module), name, None)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
