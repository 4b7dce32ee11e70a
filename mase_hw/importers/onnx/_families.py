"""The functions that compute ONNX operators, found by walking `ops`."""

from __future__ import annotations

import importlib
from functools import cache

from mase_hw.importers.onnx._values import Function, NodeCall
from mase_hw.registry import modules, nearest

OWN = ("", "ai.onnx")


@cache
def functions() -> dict[tuple[str, str], Function]:
    """Return what computes an operator, by domain and type."""
    found: dict[tuple[str, str], Function] = {}
    for name in modules("mase_hw.importers.onnx.ops"):
        file = importlib.import_module(name)
        for domain in getattr(file, "DOMAINS", ("",)):
            found |= {(domain, kind): given for kind, given in file.OPERATORS.items()}
    return found


@cache
def refused() -> dict[tuple[str, str], str]:
    """Return why operators are refused that a file could be thought to have hardware for."""
    found: dict[tuple[str, str], str] = {}
    for name in modules("mase_hw.importers.onnx.ops"):
        file = importlib.import_module(name)
        for domain in getattr(file, "DOMAINS", ("",)):
            found |= {(domain, kind): why for kind, why in getattr(file, "REFUSED", {}).items()}
    return found


def function_of(call: NodeCall) -> Function:
    """Return what computes a node.

    Raises:
        CaptureError: naming node, domain and version, and what is known.
    """
    domain = "" if call.domain in OWN else call.domain
    found = functions().get((domain, call.type))
    if found is not None:
        return found
    why = refused().get((domain, call.type))
    if why is not None:
        raise call.refuse(why)
    domains = sorted({item or "ai.onnx" for item, _ in functions()})
    known = [kind for item, kind in functions() if item == domain]
    where = f"domain {call.domain or 'ai.onnx'}, opset {call.version}"
    if not known:
        raise call.refuse(f"its {where}, is not known; domains are {', '.join(domains)}")
    raise call.refuse(f"no such operator is known in {where}; {nearest(call.type, known)}")
