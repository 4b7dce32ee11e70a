"""The functions that compute ONNX operators, found by walking `ops`."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from mase_hw.importers.onnx._values import Function, NodeCall, with_tensors
from mase_hw.registry import modules, nearest

OWN = ("", "ai.onnx")


def _declared(attribute: str) -> dict[tuple[str, str], Any]:
    return {
        (domain, kind): value
        for file in map(importlib.import_module, modules("mase_hw.importers.onnx.ops"))
        for domain in getattr(file, "DOMAINS", ("",))
        for kind, value in getattr(file, attribute, {}).items()
    }


@cache
def functions() -> dict[tuple[str, str], Function]:
    """Return the functions that compute operators, by domain and type."""
    return {key: with_tensors(function) for key, function in _declared("OPERATORS").items()}


@cache
def refused() -> dict[tuple[str, str], str]:
    """Return the reasons why operators that hardware might be expected for are refused."""
    return _declared("REFUSED")


def function_of(call: NodeCall) -> Function:
    """Return the function that computes a node.

    Raises:
        CaptureError: naming node, domain and version, and the operators that there are.
    """
    domain = "" if call.domain in OWN else call.domain
    key = domain, call.type
    if key in functions():
        return functions()[key]
    if key in refused():
        raise call.refuse(refused()[key])
    domains = sorted({item or "ai.onnx" for item, _ in functions()})
    kinds = [kind for item, kind in functions() if item == domain]
    where = f"domain {call.domain or 'ai.onnx'}, opset {call.version}"
    if not kinds:
        raise call.refuse(f"its {where}, is not known; domains are {', '.join(domains)}")
    raise call.refuse(f"no such operator is known in {where}; {nearest(call.type, kinds)}")
