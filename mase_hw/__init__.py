"""mase-hw: from a PyTorch model to SystemVerilog that is proved equal to it, bit for bit.

The verbs are loaded when they are first used:

    >>> import mase_hw
    >>> mg = mase_hw.trace(model, example_inputs)
    >>> mg = mase_hw.quantize(mg, config)
    >>> project = mase_hw.emit_verilog(mg, output="build/model", parallelism=4)
    >>> report = mase_hw.simulate(project, samples=100)
    >>> resources = mase_hw.synthesize(project)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mase_hw.api import (
        compare,
        compress,
        emit_verilog,
        prune,
        quantize,
        route,
        simulate,
        synthesize,
    )
    from mase_hw.errors import MaseError
    from mase_hw.exporters import export_onnx
    from mase_hw.graph import MaseGraph, trace
    from mase_hw.precision import fit_formats
    from mase_hw.search import search

__version__ = "0.2.0"

_VERBS = {
    "MaseError": "mase_hw.errors",
    "MaseGraph": "mase_hw.graph",
    "compare": "mase_hw.api",
    "compress": "mase_hw.api",
    "emit_verilog": "mase_hw.api",
    "export_onnx": "mase_hw.exporters",
    "fit_formats": "mase_hw.precision",
    "prune": "mase_hw.api",
    "quantize": "mase_hw.api",
    "route": "mase_hw.api",
    "search": "mase_hw.search",
    "simulate": "mase_hw.api",
    "synthesize": "mase_hw.api",
    "trace": "mase_hw.graph",
}

__all__ = [
    "MaseError",
    "MaseGraph",
    "compare",
    "compress",
    "emit_verilog",
    "export_onnx",
    "fit_formats",
    "prune",
    "quantize",
    "route",
    "search",
    "simulate",
    "synthesize",
    "trace",
]


def __getattr__(name: str) -> Any:
    """Load a verb at its first use: importing the package stays fast."""
    if name not in _VERBS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_VERBS[name]), name)
    globals()[name] = value
    return value
