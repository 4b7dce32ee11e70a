"""Synthesis of an emitted project into the cells of a library: area by node, and the netlist.

Modules of the top are kept, as in `mase_hw.hardware.synth`. A library of cells has no memories: one
of many bits is taken as a macro and counted in bits, a smaller one becomes flip-flops and gates.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mase_hw._kinds import Record
from mase_hw.errors import SynthesisError
from mase_hw.hardware.liberty import Library
from mase_hw.hardware.synth import KEPT_REGISTERS, Progress, nodes_by_instance, run_yosys

if TYPE_CHECKING:
    from rich.table import Table

# Bits of a memory that still becomes flip-flops and gates.
MACRO_BITS = 32_768
GLUE = "(glue)"
MEMORY = "$mem_v2"
# Constants of the netlist, whose other nets count from 2 on; what is unknown is 0.
CONSTANTS = {"0": 0, "1": 1, "x": 0, "z": 0}


@dataclass(frozen=True)
class Gate:
    """A cell of the netlist.

    Attributes:
        cell: its name in the library.
        node: the graph node that it belongs to; `GLUE` for none.
        nets: by pin.
    """

    cell: str
    node: str
    nets: Mapping[str, int]


@dataclass(frozen=True)
class GateNetlist:
    """A design as cells of a library, its modules dissolved.

    Attributes:
        gates: all cells.
        ports: nets by port, low bit first.
        nets: how many there are; 0 and 1 are constants.
        macro_bits: bits of memories that are no gates, by node.
    """

    gates: tuple[Gate, ...]
    ports: Mapping[str, tuple[int, ...]]
    nets: int
    macro_bits: Mapping[str, int]


@dataclass(frozen=True)
class GateCount:
    """What a part of a design takes: `area` in the library's unit."""

    cells: int = 0
    flip_flops: int = 0
    area: float = 0.0
    macro_bits: int = 0

    def __add__(self, other: GateCount) -> GateCount:
        return GateCount(
            self.cells + other.cells,
            self.flip_flops + other.flip_flops,
            self.area + other.area,
            self.macro_bits + other.macro_bits,
        )

    def to_dict(self) -> dict[str, int | float]:
        """Return `cells`, `flip_flops`, `area` and `macro_bits`."""
        return dict(vars(self))


@dataclass(frozen=True)
class GateReport:
    """An estimate of the area of a design in a library: of its cells, without wires.

    Attributes:
        library: the library.
        netlist: the cells.
        nodes: what each graph node takes, in topological order; last what belongs to none.
    """

    library: Library
    netlist: GateNetlist
    nodes: Mapping[str, GateCount]

    @property
    def total(self) -> GateCount:
        """The sum over nodes."""
        return reduce(add, self.nodes.values(), GateCount())

    def to_dict(self) -> dict[str, object]:
        """Return the library's name, the totals, and `nodes` with the same keys."""
        return {
            "library": self.library.name,
            **self.total.to_dict(),
            "nodes": {name: count.to_dict() for name, count in self.nodes.items()},
        }

    def table(self) -> Table:
        """Return a table with a row per node, for rich."""
        from rich.table import Table

        total = self.total
        table = Table(title=f"Estimated with {self.library.name}", show_footer=True)
        table.add_column("node", footer="total")
        for name, amount in _amounts(total).items():
            table.add_column(name, footer=amount, justify="right")
        for node, count in self.nodes.items():
            table.add_row(node, *_amounts(count).values())
        return table


def _amounts(count: GateCount) -> dict[str, str]:
    return {
        "cells": f"{count.cells:,}",
        "of these flip-flops": f"{count.flip_flops:,}",
        "area": f"{count.area:,.0f}",
        "bits in macros": f"{count.macro_bits:,}",
    }


def synthesize_gates(
    project: Path,
    liberty: Path,
    *,
    macro_bits: int = MACRO_BITS,
    progress: Progress | None = None,
) -> GateReport:
    """Synthesize an emitted project into cells of a library.

    Args:
        project: folder with `top.sv`, `files.f`, `mem/` and `design.json`.
        liberty: the library, in Liberty.
        macro_bits: the most bits of a memory that becomes flip-flops and gates.
        progress: called with the name of each Yosys pass as it starts.

    Raises:
        SynthesisError: when the folder is no project, the file no library, or Yosys fails.
    """
    library, nodes = Library.load(liberty), nodes_by_instance(project)
    with TemporaryDirectory(prefix="mase_hw_gates_") as scratch:
        path = Path(scratch) / "netlist.json"
        run_yosys(_script(nodes, liberty.absolute(), macro_bits, path), project, progress)
        netlist = read_netlist(json.loads(path.read_text())["modules"], nodes)
    return GateReport(library, netlist, _counts(netlist, library, nodes))


def _script(nodes: Mapping[str, str], liberty: Path, macro_bits: int, path: Path) -> list[str]:
    return [
        "read_slang --best-effort-hierarchy --top top -U SYNTHESIS -f files.f",
        *(f"setattr -mod -set keep_hierarchy 1 *$top.{name}" for name in nodes),
        KEPT_REGISTERS,
        "synth -flatten -run :fine -top top",
        f"macros {macro_bits}",
        "opt -fast -full",
        f"memory_map t:{MEMORY} a:macro %d",
        "opt -undriven -fine",
        "techmap",
        "opt -fast",
        f'dfflibmap -liberty "{liberty}"',
        f'abc -liberty "{liberty}"',
        "opt_clean",
        "delete t:$scopeinfo",
        f'write_json "{path}"',
    ]


def read_netlist(modules: Record, nodes: Mapping[str, str]) -> GateNetlist:
    """Return the netlist of Yosys's modules: a top, and those of its instances."""
    top, nets = modules["top"], _Nets()
    gates: list[Gate] = []
    macros: Counter[str] = Counter()
    for name, cell in top["cells"].items():
        if cell["type"] in modules:
            ports = modules[cell["type"]]["ports"]
            for port, bits in cell["connections"].items():
                nets.join(("", bits), (name, ports[port]["bits"]))
    for name, cell in top["cells"].items():
        module = modules.get(cell["type"])
        inside, cells = (name, module["cells"].values()) if module else ("", [cell])
        node = nodes[name] if module else GLUE
        for item in cells:
            if item["type"] == MEMORY:
                size, width = (int(item["parameters"][key], 2) for key in ("SIZE", "WIDTH"))
                macros[node] += size * width
            else:
                found = item["connections"].items()
                own = {pin: nets.number(inside, bits[0]) for pin, bits in found}
                gates.append(Gate(item["type"], node, own))
    pins = {
        name: tuple(nets.number("", bit) for bit in port["bits"])
        for name, port in top["ports"].items()
    }
    return GateNetlist(tuple(gates), pins, nets.count, dict(macros))


Bit = int | str


class _Nets:
    """Numbers of nets that are the same in several modules; constants have theirs."""

    def __init__(self) -> None:
        self._same: dict[tuple[str, Bit], tuple[str, Bit]] = {}
        self._numbers: dict[tuple[str, Bit], int] = {}

    @property
    def count(self) -> int:
        return len(self._numbers) + 2

    def join(self, left: tuple[str, list[Bit]], right: tuple[str, list[Bit]]) -> None:
        """Make the bits of two ports the same."""
        for one, other in zip(left[1], right[1], strict=True):
            ends = self._root(left[0], one), self._root(right[0], other)
            # A constant is what others are.
            kept, gone = sorted(ends, key=lambda end: isinstance(end[1], int))
            if kept != gone:
                self._same[gone] = kept

    def number(self, inside: str, bit: Bit) -> int:
        root = self._root(inside, bit)
        if isinstance(root[1], str):
            return CONSTANTS[root[1]]
        return self._numbers.setdefault(root, len(self._numbers) + 2)

    def _root(self, inside: str, bit: Bit) -> tuple[str, Bit]:
        root: tuple[str, Bit] = ("" if isinstance(bit, str) else inside, bit)
        while root in self._same:
            root = self._same[root]
        return root


def _counts(
    netlist: GateNetlist, library: Library, nodes: Mapping[str, str]
) -> dict[str, GateCount]:
    found = dict.fromkeys((*nodes.values(), GLUE), GateCount())
    for gate in netlist.gates:
        cell = library.cells.get(gate.cell)
        if cell is None:
            raise SynthesisError(
                f"{gate.node} has a {gate.cell}, which {library.name} lacks: the library must have "
                "flip-flops on a rising clock, and gates of two inputs"
            )
        found[gate.node] += GateCount(1, int(bool(cell.state)), cell.area)
    for node, bits in netlist.macro_bits.items():
        found[node] += GateCount(macro_bits=bits)
    return {node: count for node, count in found.items() if count != GateCount()}
