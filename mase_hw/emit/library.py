"""The SystemVerilog library, and what its modules declare."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from mase_hw._resources import rtl_folder


@cache
def library() -> Mapping[str, str]:
    """Return the text of every module and package of the library."""
    return {path.stem: path.read_text() for path in sorted(rtl_folder().rglob("*.sv"))}


def library_ports(module: str) -> frozenset[str]:
    """Return the ports of a module of the library, clock and reset left out."""
    return declared_names(module, library()[module])["port"] - {"clk", "rst"}


@cache
def declared_names(module: str, text: str) -> Mapping[str, frozenset[str]]:
    """Return the names in the header of a module: `port`, `input`, `output`, `parameter`."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    header = text[text.index(f"module {module}") :]
    header = header[: header.index(");") + 2]
    ports = re.findall(r"\b(input|output)\b[^,;()]*?\b(\w+)\s*(?=,|\)|$)", _flat(header))
    parameters = re.findall(r"\bparameter\b[^=;]*?\b(\w+)\s*=", header)
    return {
        "port": frozenset(name for _, name in ports),
        **{way: frozenset(name for to, name in ports if to == way) for way in ("input", "output")},
        "parameter": frozenset(parameters),
    }


def _flat(header: str) -> str:
    """Return a header without what stands in brackets, where commas and names may be."""
    while True:
        shorter = re.sub(r"\[[^\[\]]*\]", " ", header)
        if shorter == header:
            return header
        header = shorter
