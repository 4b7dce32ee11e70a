"""The SystemVerilog files that a design needs, and whether its instances fit their modules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw._resources import rtl_folder
from mase_hw.cells import Cell
from mase_hw.errors import EmissionError

if TYPE_CHECKING:
    from mase_hw.emit.design import Design


@cache
def _library() -> dict[str, Path]:
    return {path.stem: path for path in sorted(rtl_folder().rglob("*.sv"))}


def _sources(cells: Iterable[Cell]) -> dict[str, Path]:
    """Return every module's file, those beside the cells of third parties with them."""
    beside = {cell.module: cell.source for cell in cells}
    return {**_library(), **{name: path for name, path in beside.items() if path is not None}}


def module_files(cells: Iterable[Cell]) -> list[Path]:
    """Return the files of the cells' modules and of all they name, packages first.

    Raises:
        EmissionError: when there is no such module.
    """
    listed = list(cells)
    known, found = _sources(listed), dict[str, Path]()
    open_ = [cell.module for cell in listed]
    while open_:
        module = open_.pop()
        if module in found:
            continue
        if module not in known:
            raise EmissionError(f"the SystemVerilog library has no module {module}")
        found[module] = known[module]
        words = set(re.findall(r"\b[A-Za-z_]\w*", known[module].read_text()))
        open_ += [word for word in words if word in known]
    return [found[name] for name in sorted(found, key=lambda name: (not _is_package(name), name))]


def _is_package(name: str) -> bool:
    return name.endswith("_pkg")


def check_instances(design: Design) -> None:
    """Refuse an instance that names a port or a parameter which its module lacks.

    Raises:
        EmissionError: naming the node, the cell, and what its module has.
    """
    sources = _sources(item.cell for item in design.instances)
    checked: set[tuple[str, frozenset[str], frozenset[str]]] = set()
    for instance in design.instances:
        if instance.module not in sources:
            raise EmissionError(
                f"{instance.node}: there is no module {instance.module} for the cell "
                f"{type(instance.cell).__name__}: neither in the library nor beside its class"
            )
        names = {
            "port": frozenset(instance.port_names) | {"clk", "rst"},
            "parameter": frozenset(design.parameters(instance)),
        }
        key = (instance.module, names["port"], names["parameter"])
        if key in checked:
            continue
        checked.add(key)
        declared = declared_names(sources[instance.module])
        for what, given in names.items():
            missing = sorted(given - declared[what])
            if missing:
                raise EmissionError(
                    f"{instance.node}: the cell {type(instance.cell).__name__} has the {what} "
                    f"{missing[0]!r}, its module {instance.module} has "
                    f"{', '.join(sorted(declared[what])) or 'no other'}"
                )
        unconnected = sorted(declared["port"] - names["port"])
        if unconnected:
            raise EmissionError(
                f"{instance.node}: the module {instance.module} has the port {unconnected[0]!r}, "
                f"the cell {type(instance.cell).__name__} does not connect it"
            )


def stream_ports(module: str) -> frozenset[str]:
    """Return the ports of a module of the library, clock and reset left out."""
    return declared_names(_library()[module])["port"] - {"clk", "rst"}


@cache
def declared_names(path: Path) -> Mapping[str, frozenset[str]]:
    """Return the names of the ports and parameters in the header of a module's file."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    header = text[text.index(f"module {path.stem}") :]
    header = header[: header.index(");") + 2]
    ports = re.findall(r"\b(?:input|output)\b[^,;()]*?\b(\w+)\s*(?=,|\)|$)", _flat(header))
    parameters = re.findall(r"\bparameter\b[^=;]*?\b(\w+)\s*=", header)
    return {"port": frozenset(ports), "parameter": frozenset(parameters)}


def _flat(header: str) -> str:
    """Return a header without what stands in brackets, where commas and names may be."""
    while True:
        shorter = re.sub(r"\[[^\[\]]*\]", " ", header)
        if shorter == header:
            return header
        header = shorter
