"""Dynamic energy of a design as cells of a library: every change of a net is counted and weighed.

The gates of `mase_hw.hardware.gates` run cycle by cycle without delays, so that glitches are not
seen, and their outputs are compared with the integer reference. A change of a net costs half the
capacitance of the pins on it times the square of the supply voltage, and of each pin the energy
inside its cell that the library tells. Wires and the tree of the clock are not in it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mase_hw._native import build_cpp, load_library
from mase_hw.emit.design import DesignSummary, Stream
from mase_hw.emit.project import load_graph
from mase_hw.errors import SimulationError
from mase_hw.graph.reference import IntegerReference
from mase_hw.hardware.gates import GateNetlist, GateReport
from mase_hw.hardware.liberty import MOST_INPUTS, Library, truth_table
from mase_hw.sim.compare import chosen_inputs
from mase_hw.sim.inputs import encode_values
from mase_hw.sim.layout import Bytes, StreamLayout
from mase_hw.sim.simulate import make_request, reference_codes

if TYPE_CHECKING:
    from rich.table import Table

SOURCE = Path(__file__).with_name("energy.cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fPIC", "-shared")
DEFAULT_SAMPLES = 4
RESET_CYCLES = 4
# Cycles until an interrupt is noticed.
TURN_CYCLES = 2_000
GATE = np.dtype(
    [("table", "u8"), ("inputs", "i4", (MOST_INPUTS,)), ("output", "i4"), ("unused", "i4")]
)
REGISTER = np.dtype([("next", "i4"), ("state", "i4")])


@dataclass(frozen=True)
class EnergyReport:
    """An estimate of the energy of a design, without wires.

    Attributes:
        library: its name.
        voltage: volts.
        inferences: how many ran, back to back.
        cycles: from the end of reset to the last result.
        toggles: changes of all nets but the clock.
        nodes: joules an inference by graph node: all, and what the clock's pins take of it.
    """

    library: str
    voltage: float
    inferences: int
    cycles: int
    toggles: int
    nodes: Mapping[str, tuple[float, float]]

    @property
    def joules(self) -> float:
        """Joules an inference, all nodes together."""
        return sum(both for both, _ in self.nodes.values())

    def to_dict(self) -> dict[str, object]:
        """Return the fields; energies are in joules an inference."""
        return {
            "library": self.library,
            "voltage": self.voltage,
            "inferences": self.inferences,
            "cycles": self.cycles,
            "toggles": self.toggles,
            "joules": self.joules,
            "nodes": {
                name: {"joules": both, "clock_joules": clock}
                for name, (both, clock) in self.nodes.items()
            },
        }

    def table(self) -> Table:
        """Return a table with a row per node, for rich."""
        from rich.table import Table

        table = Table(
            title=f"Dynamic energy estimated with {self.library}, {self.voltage:g} V, "
            f"{self.inferences} inferences in {self.cycles:,} cycles",
            show_footer=True,
        )
        table.add_column("node", footer="total")
        clock = sum(clock for _, clock in self.nodes.values())
        table.add_column("pJ an inference", footer=f"{1e12 * self.joules:,.0f}", justify="right")
        table.add_column("of it the clock's pins", footer=f"{1e12 * clock:,.0f}", justify="right")
        for node, (both, of_clock) in self.nodes.items():
            table.add_row(node, f"{1e12 * both:,.0f}", f"{1e12 * of_clock:,.0f}")
        return table


def count_energy(
    project: Path, gates: GateReport, *, samples: int | None = None, seed: int = 0
) -> EnergyReport:
    """Return the energy of inferences of the example inputs, back to back.

    Args:
        project: the emitted folder that the gates were made of.
        gates: what `mase_hw.hardware.gates.synthesize_gates` returned.
        samples: how many of the example inputs; 4 at most without it.
        seed: seeds the first values of registers and what fills padding lanes.

    Raises:
        SimulationError: for memories that are no gates, a design that reads words outside the chip,
            a clock that gates drive, and results that differ from the integer reference.
    """
    _check(gates.netlist)
    mg, summary = load_graph(project)
    if summary.external is not None:
        raise SimulationError("constants outside the chip take energy that no library of cells has")
    values = chosen_inputs(mg, summary, samples=samples)
    values = [item[: samples or DEFAULT_SAMPLES] for item in values]
    codes = encode_values(summary.inputs, values)
    expected = reference_codes(IntegerReference(mg), codes, summary.outputs)
    request = make_request(project, summary, codes, expected, seed)
    inputs = dict(zip([item.name for item in summary.inputs], request.inputs, strict=True))
    circuit = _Circuit(gates.netlist, gates.library)
    cycles, toggles = circuit.run(summary, {**inputs, **request.expected}, len(codes[0]), seed)
    clock = gates.netlist.ports["clk"][0]
    counted = int(toggles.sum())
    toggles[clock] = 2 * cycles
    energies = _energies(gates, toggles, clock, len(codes[0]))
    return EnergyReport(
        gates.library.name, gates.library.voltage, len(codes[0]), cycles, counted, energies
    )


def _check(netlist: GateNetlist) -> None:
    for node, bits in netlist.macro_bits.items():
        raise SimulationError(
            f"{node} has {bits:,} bits in macros, of which a library of cells knows no energy; "
            f"allow memories of more bits to become gates (--macro-bits)"
        )


def _energies(
    gates: GateReport, toggles: npt.NDArray[np.uint64], clock: int, inferences: int
) -> dict[str, tuple[float, float]]:
    """Return joules an inference by node: all, and those of pins on the clock."""
    library, netlist = gates.library, gates.netlist
    loads = np.zeros(netlist.nets)
    for gate in netlist.gates:
        for name in library.cells[gate.cell].inputs:
            loads[gate.nets[name]] += library.cells[gate.cell].pins[name].capacitance
    unit = library.capacitance_unit / inferences
    charge, inside = 0.5 * unit * library.voltage**2, unit * library.voltage_unit**2
    power_of = dict.fromkeys(gates.nodes, (0.0, 0.0))
    for gate in netlist.gates:
        both, of_clock = power_of[gate.node]
        for name, pin in library.cells[gate.cell].pins.items():
            net = gate.nets.get(name)
            if net is None or not toggles[net]:
                continue
            energy = charge * pin.capacitance + inside * pin.energy(
                float(loads[net]) if pin.is_output else 0.0
            )
            both += (taken := energy * int(toggles[net]))
            of_clock += taken if net == clock else 0.0
        power_of[gate.node] = both, of_clock
    return power_of


class _Circuit:
    """A netlist as what the simulator runs: gates in the order of their signals, and registers."""

    def __init__(self, netlist: GateNetlist, library: Library) -> None:
        self._netlist, self._nets = netlist, netlist.nets
        gates, registers = [], []
        clock = netlist.ports["clk"][0]
        for gate in netlist.gates:
            cell = library.cells[gate.cell]
            state: tuple[tuple[str, int], ...] = ()
            if cell.state:
                self._check_clock(gate.nets, cell.clock, clock, gate.node)
                place, following = self._new(), self._new()
                inverse = self._new()
                state = tuple(zip(cell.state, (place, inverse), strict=False))
                pins = [(name, gate.nets[name]) for name in cell.inputs if name != cell.clock]
                gates.append(self._gate(cell.next_state, [*pins, state[0]], following))
                gates.append(self._gate(f"!{cell.state[0]}", [state[0]], inverse))
                registers.append((following, place))
            else:
                pins = [(name, gate.nets[name]) for name in cell.inputs]
            for name in cell.outputs:
                if name in gate.nets:
                    of = list(state) if cell.state else pins
                    gates.append(self._gate(cell.pins[name].function, of, gate.nets[name]))
        self._registers = np.array(registers, REGISTER)
        self._gates = np.array(_sorted(gates, {place for _, place in registers}), GATE)

    def _new(self) -> int:
        self._nets += 1
        return self._nets - 1

    def _check_clock(self, nets: Mapping[str, int], pin: str, clock: int, node: str) -> None:
        if nets.get(pin) != clock:
            raise SimulationError(
                f"a flip-flop of {node} has the clock {pin!r}, which is not that of the design: "
                "the library must have flip-flops on a rising clock"
            )

    @staticmethod
    def _gate(
        function: str, pins: Sequence[tuple[str, int]], output: int
    ) -> tuple[int, tuple[int, ...], int, int]:
        table = truth_table(function, [name for name, _ in pins])
        nets = [net for _, net in pins]
        return table, (*nets, *[0] * (MOST_INPUTS - len(nets))), output, 0

    def run(
        self, summary: DesignSummary, beats: Mapping[str, Bytes], inferences: int, seed: int
    ) -> tuple[int, npt.NDArray[np.uint64]]:
        """Return the cycles until the last result, and how often each net changed."""
        values = np.zeros(self._nets, np.uint8)
        chosen = np.random.default_rng(seed).integers(0, 2, len(self._registers), np.uint8)
        values[self._registers["state"]] = chosen
        values[1] = 1
        toggles = np.zeros(self._nets, np.uint64)
        streams = [*self._streams(summary, beats)]
        table = (_Stream * len(streams))(*(item.described for item in streams))
        before, following = values.copy(), np.zeros(len(self._registers), np.uint8)
        limit = 2 * (summary.latency_cycles + inferences * summary.interval_cycles) + 1000
        for start in range(-RESET_CYCLES, limit, TURN_CYCLES):
            cycles = _library().toggles_run(
                *(_pointer(self._gates), len(self._gates)),
                *(_pointer(self._registers), len(self._registers)),
                *(ctypes.addressof(table), len(table), self._netlist.ports["rst"][0]),
                *(start, start + TURN_CYCLES),
                *(_pointer(values), _pointer(before), _pointer(following)),
                *(self._nets, _pointer(toggles)),
            )
            if cycles > 0:
                break
        else:
            raise SimulationError(f"the gates gave no result within {limit:,} cycles")
        for item, told in zip(streams, table, strict=True):
            if told.wrong:
                raise SimulationError(
                    f"{told.wrong} bits of {item.name} differ between the gates and the integer "
                    "reference: the library or the synthesizer is wrong"
                )
        return cycles, toggles[: self._netlist.nets]

    def _streams(self, summary: DesignSummary, beats: Mapping[str, Bytes]) -> Iterator[_Driven]:
        for stream in (*summary.inputs, *summary.outputs):
            yield _Driven(stream, self._netlist.ports, beats[stream.name], stream in summary.inputs)


class _Driven:
    """A port with its beats, kept while the simulator holds their addresses."""

    def __init__(
        self, stream: Stream, ports: Mapping[str, Sequence[int]], beats: Bytes, is_input: bool
    ) -> None:
        layout = StreamLayout(stream)
        self.name = stream.name
        names = [f"{stream.name}{item.suffix}" for item in stream.fields]
        self._nets = np.array([net for name in names for net in ports[name]], np.int32)
        self._bits = np.ascontiguousarray(layout.bits(beats))
        mask = np.tile(layout.mask(), (len(beats) // stream.spec.beats, 1))
        self._mask = np.ascontiguousarray(layout.bits(mask))
        self.described = _Stream(
            *(is_input, len(self._nets)),
            *(ports[f"{stream.name}_{end}"][0] for end in ("valid", "ready")),
            len(beats),
            *(_pointer(item) for item in (self._nets, self._bits, self._mask)),
            *(0, 0),
        )


class _Stream(ctypes.Structure):
    """As in `energy.cpp`."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("is_input", "width", "valid", "ready")),
        ("beats", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("nets", "bits", "mask")),
        *((name, ctypes.c_int64) for name in ("place", "wrong")),
    )


def _sorted(
    gates: Sequence[tuple[int, tuple[int, ...], int, int]], states: set[int]
) -> list[tuple[int, tuple[int, ...], int, int]]:
    """Return gates in an order in which each follows those that drive it."""
    drivers = {gate[2]: place for place, gate in enumerate(gates)}
    graph = {
        place: [drivers[net] for net in gate[1] if net in drivers]
        for place, gate in enumerate(gates)
    }
    try:
        return [gates[place] for place in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise SimulationError("the gates have a loop without a flip-flop") from error


@cache
def _library() -> ctypes.CDLL:
    library = load_library(build_cpp(SOURCE, FLAGS))
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    library.toggles_run.argtypes = [
        *(pointer, count, pointer, count, pointer, count),
        *(ctypes.c_int32, count, count),
        *(pointer, pointer, pointer, count, pointer),
    ]
    library.toggles_run.restype = count
    return library


def _pointer(values: npt.NDArray[Any]) -> int:
    return values.ctypes.data
