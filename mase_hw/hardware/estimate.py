"""Estimated resources and energy of a graph with parallelism, for searches and a first look.

Every cell lists its components (`Cell.components`). Rules (`mase_hw.hardware._component_rules`)
give the flip-flops, carry chains, DSP blocks, block RAMs and memory bits of a component. Its look-
up tables are a few amounts times coefficients, fitted by least squares to Yosys' counts of single
cells (in a checkout, `python -m tests.bench.refit` fits them again). The target is that of
`synth_xilinx -family xcup`. A cell's components take 0.05 to 0.4 ms of a processor; Yosys at word
level would take 30 to 70, which a search over thousands of cells has not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from functools import cache, reduce
from operator import add, sub
from pathlib import Path
from typing import TYPE_CHECKING

from torch.fx import Node

from mase_hw.cells import Cell, Components, Netlist, RomSource
from mase_hw.cells.axi_read_port import AxiReadPort
from mase_hw.cells.axi_source import AxiSource
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.cells.stream_fork import StreamFork
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import consumers, metadata, update
from mase_hw.graph.physical import PhysicalGraph, physical
from mase_hw.graph.reference import output_nodes, spec
from mase_hw.hardware._component_rules import EXACT, taken
from mase_hw.hardware.clock import Clock, predicted
from mase_hw.ops import Call
from mase_hw.timing.memory import ExternalMemory, external_memory
from mase_hw.timing.prediction import predict

if TYPE_CHECKING:
    from rich.table import Table

COEFFICIENTS = Path(__file__).with_name("coefficients.json")
EXTERNAL_NODE = "external_memory"
# About their shares of the larger devices of the family.
DSP_LUT, BRAM_LUT = 100, 300
PRODUCT_PICOJOULES, SUM_PICOJOULES, READ_PICOJOULES = 3.1, 0.1, 10.0
PRODUCT_BITS, SUM_BITS, READ_BITS = 32 * 32, 32, 64


@dataclass(frozen=True)
class Estimate:
    """What a design, or a part of it, is estimated to take.

    Attributes:
        lut: look-up tables.
        ff: flip-flops.
        carry: blocks of four bits of a carry chain.
        dsp: DSP blocks.
        bram: block RAMs of 36 kbit; halves count.
        memory_bits: bits of memories, wherever they lie.
        energy_pj: proxy of the energy of one inference, picojoules.
    """

    lut: float = 0.0
    ff: float = 0
    carry: float = 0
    dsp: float = 0
    bram: float = 0.0
    memory_bits: float = 0
    energy_pj: float = 0.0

    @property
    def weighed(self) -> float:
        """Look-up tables, with `DSP_LUT` for a DSP block and `BRAM_LUT` for a block RAM."""
        return self.lut + DSP_LUT * self.dsp + BRAM_LUT * self.bram

    @property
    def order(self) -> tuple[float, float]:
        """By which estimates are compared: the weighed resources, then bits of memories."""
        return self.weighed, self.memory_bits

    def beyond(self, budgets: Mapping[str, float]) -> dict[str, float]:
        """Return the excess over each budget that is exceeded, by name of the resource."""
        excess = {name: getattr(self, name) - most for name, most in budgets.items()}
        return {name: more for name, more in excess.items() if more > 0}

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(*map(sub, astuple(self), astuple(other)))

    def __truediv__(self, parts: int) -> Estimate:
        return Estimate(*(item / parts for item in astuple(self)))


@dataclass(frozen=True)
class EstimateReport:
    """Estimates by node.

    Attributes:
        nodes: by graph node.
        interval_cycles: cycles from one inference to the next.
        clock: the highest rate, and what limits it.
    """

    nodes: Mapping[str, Estimate] = field(default_factory=dict)
    interval_cycles: int = 0
    clock: Clock | None = None

    @property
    def total(self) -> Estimate:
        """The sum over nodes."""
        return reduce(add, self.nodes.values(), Estimate())

    def to_dict(self) -> dict[str, object]:
        """Return the totals, the interval, and `nodes` with the same keys."""
        return {
            **_rounded(self.total),
            "interval_cycles": self.interval_cycles,
            "clock": self.clock.to_dict() if self.clock else None,
            "nodes": {name: _rounded(item) for name, item in self.nodes.items()},
        }

    def table(self) -> Table:
        """Return a table with a row per node, for rich."""
        from rich.table import Table

        table = Table(title="Estimated resources on xcup", show_footer=True)
        names = [item.name for item in fields(Estimate) if item.name != "energy_pj"]
        total = _rounded(self.total)
        table.add_column("node", footer="total")
        for name in names:
            title = name.replace("_", " ") if "_" in name else name.upper()
            table.add_column(title, footer=f"{total[name]:,g}", justify="right")
        for node, item in self.nodes.items():
            row = _rounded(item)
            table.add_row(node, *(f"{row[name]:,g}" for name in names))
        return table


def _rounded(item: Estimate) -> dict[str, float]:
    """Return an estimate with whole look-up tables."""
    return {**asdict(item), "lut": round(item.lut), "energy_pj": round(item.energy_pj, 1)}


@cache
def coefficients() -> Mapping[str, float]:
    """Return the look-up tables of each unit of a component, by its name."""
    found: dict[str, float] = json.loads(COEFFICIENTS.read_text())
    return found


def estimate(mg: MaseGraph) -> Estimate:
    """Return the estimate of a graph that went through the hardware metadata pass."""
    return estimate_nodes(mg).total


def on_device(mg: MaseGraph, device: str) -> MaseGraph:
    """Return a graph that went through the hardware metadata pass with another device's blocks.

    Queues stay as they are: it is for estimates, not for emission.
    """
    mg = mg.copy()
    for node in mg.nodes:
        known = metadata(node).hardware
        if known is not None:
            update(node, hardware=replace(known, device=device))
    return mg


def estimate_nodes(mg: MaseGraph) -> EstimateReport:
    """Return the estimate of every node of such a graph, splitters of its result included."""
    mg = physical(mg)
    external = external_memory(mg)
    found: dict[str, Estimate] = {}
    interval = external.cycles if external else 0
    if isinstance(mg, PhysicalGraph):
        interval = predict(mg).interval_cycles
    placed = placed_cells(mg)
    for name, cells in placed.items():
        found[name] = reduce(add, map(of_cell, cells), Estimate())
    for node in mg.nodes:
        if node.op == "call_function":
            netlist = mg.netlist(node)
            energy = _energy(mg.call(node), netlist) * mg.rounds(node)
            if energy:
                found[node.name] += Estimate(energy_pj=energy)
            interval = max(interval, netlist.busy_cycles)
    total = reduce(add, found.values(), Estimate())
    return EstimateReport(found, interval, predicted(placed, total.lut + total.ff))


def placed_cells(mg: MaseGraph) -> dict[str, list[Cell]]:
    """Return the cells of every node, splitters of its result and what reads a memory included."""
    mg = physical(mg)
    external = external_memory(mg)
    found: dict[str, list[Cell]] = {}
    outputs = output_nodes(mg)
    for node in mg.nodes:
        cells: list[Cell] = []
        if node.op == "call_function":
            cells += _placed(node, mg.netlist(node), external)
        elif node.op != "placeholder":
            continue
        uses = sum(1 for _ in consumers(node)) + outputs.count(node)
        if uses > 1:
            cells.append(StreamFork(uses, spec(node).beats))
        if cells:
            found[node.name] = cells
    if external is not None:
        port = external.port
        read = AxiReadPort(
            len(external.regions),
            port.address_width,
            port.data_width,
            external.id_width,
            port.outstanding,
        )
        found[EXTERNAL_NODE] = [read]
    return found


def _placed(node: Node, netlist: Netlist, external: ExternalMemory | None) -> Iterator[Cell]:
    """Yield the cells of a node, with sources of constants where they lie."""
    regions = external.regions if external else ()
    outside = {
        netlist.constants[region.operand]: (number, region)
        for number, region in enumerate(regions)
        if region.node == node.name
    }
    for name, cell in netlist.cells.items():
        if name in outside and isinstance(cell, RomSource) and external is not None:
            number, region = outside[name]
            port = external.port
            yield AxiSource(
                cell.port,
                number,
                region.words,
                region.repeats,
                port.data_width,
                port.address_width,
                region.offset,
                region.burst_beats,
                region.buffer_beats,
            )
        else:
            yield cell


def of_cell(cell: Cell) -> Estimate:
    """Estimate of a cell."""
    return of_components(cell.components)


def of_components(components: Components, *, contents: bool = True) -> Estimate:
    """Estimate of components.

    Args:
        components: the components.
        contents: whether the words of tables count; else every bit of them is taken to vary.
    """
    by_name = coefficients()
    lut = bram = 0.0
    ff = carry = dsp = bits = 0
    for component, number in components.items:
        item = taken(component, contents=contents)
        ff += item.ff * number
        carry += item.carry * number
        dsp += item.dsp * number
        bram += item.bram * number
        bits += item.memory_bits * number
        for name, amount in item.terms.items():
            lut += number * amount * (1.0 if name == EXACT else by_name.get(name, 0.0))
    return Estimate(lut, ff, carry, dsp, bram, bits)


def of_cells(cells: Iterable[Cell]) -> Estimate:
    """Estimate of cells, every bit of their tables taken to vary: words take long, for little."""
    items = (of_components(cell.components, contents=False) for cell in cells)
    return reduce(add, items, Estimate())


def terms_of(components: Components) -> dict[str, float]:
    """Return the amounts by coefficient of components, for a fit."""
    found: dict[str, float] = {}
    for component, number in components.items:
        for name, amount in taken(component).terms.items():
            if amount:
                found[name] = found.get(name, 0.0) + amount * number
    return found


def _energy(call: Call, netlist: Netlist) -> float:
    if netlist.is_wire or isinstance(netlist.main, StreamFifo) or not netlist.multipliers:
        return 0.0
    first, second = _operand_bits(call)
    energy = (
        PRODUCT_PICOJOULES * first * second / PRODUCT_BITS
        + SUM_PICOJOULES * (first + second) / SUM_BITS
        + READ_PICOJOULES * second / READ_BITS * bool(call.constants)
    )
    return netlist.multipliers * netlist.busy_cycles * energy


def _operand_bits(call: Call) -> tuple[float, float]:
    """Return the bits of an element of the first two operands, or the first one's twice."""
    bits = [item.quantized.bits_per_element for item in call.operands.values()]
    return bits[0], bits[1] if len(bits) > 1 else bits[0]
