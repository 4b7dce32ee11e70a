"""Netlists: cells joined by streams, from which timing, emission and reports are derived."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from torch import Tensor

from mase_hw.cells._base import Cell, Port
from mase_hw.cells._device import Device
from mase_hw.cells._motion import Arrivals, Motion, follow, through
from mase_hw.cells._sketch import Curve, held, stage
from mase_hw.cells.layer_source import LayerSource
from mase_hw.cells.rom_source import RomSource
from mase_hw.errors import EmissionError
from mase_hw.geometry.beats import Cycles
from mase_hw.geometry.tensor import TensorSpec

INSTANCE = "inst"


@dataclass(frozen=True)
class Wire:
    """A stream inside a netlist: an output of a cell, or an input of the netlist.

    Attributes:
        cell: name of the cell that drives it; empty for an input of the netlist.
        port: the cell's output, or the input's name.
    """

    cell: str
    port: str


@dataclass(frozen=True)
class Flow:
    """When beats move through a netlist.

    Attributes:
        taken: by input, and by constant that may be late.
        offered: by output.
    """

    taken: Mapping[str, Cycles]
    offered: Mapping[str, Cycles]


@dataclass(frozen=True)
class Sketch:
    """When some beats move through a netlist.

    Attributes:
        taken: by input.
        offered: of the first output.
    """

    taken: Mapping[str, Curve]
    offered: Curve


@dataclass(frozen=True)
class Netlist:
    """Cells joined by streams; immutable, built once for each node of a graph.

    Attributes:
        inputs: the streams that enter, by operand.
        cells: in dataflow order, by the name that follows the node's in an instance's name.
        links: the driver of each input of each cell that is connected.
        outputs: the streams that leave, by result.
        constants: the cell that sends each constant operand.
    """

    inputs: Mapping[str, Port]
    cells: Mapping[str, Cell]
    links: Mapping[tuple[str, str], Wire]
    outputs: Mapping[str, Wire]
    constants: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def single(cls, inputs: Mapping[str, Port], cell: Cell) -> Netlist:
        """Return the netlist of one cell, which takes the inputs in their order."""
        net = NetlistBuilder(inputs)
        wires = {port: net.input(name) for port, name in zip(cell.inputs, inputs, strict=False)}
        return net.netlist(data_out_0=net.add(cell, "", **wires))

    @classmethod
    def wire(cls, inputs: Mapping[str, Port]) -> Netlist:
        """Return the netlist whose result is its first input."""
        return cls(inputs, {}, {}, {"data_out_0": Wire("", next(iter(inputs)))})

    @property
    def is_wire(self) -> bool:
        """Whether the result is the operand itself."""
        return not self.cells

    @property
    def main(self) -> Cell | None:
        """The cell that drives the first output; None for a wire."""
        return self.cells.get(next(iter(self.outputs.values())).cell)

    @cached_property
    def multipliers(self) -> int:
        """The multipliers of all cells."""
        return sum(cell.multipliers for cell in self.cells.values())

    @cached_property
    def busy_cycles(self) -> int:
        """Cycles that one inference occupies the netlist: its initiation interval."""
        ports = max(port.beats for port in self.inputs.values())
        return max([ports, *(cell.busy_cycles for cell in self.cells.values())])

    def port(self, wire: Wire) -> Port:
        """Return the port that drives a wire."""
        return self.cells[wire.cell].outputs[wire.port] if wire.cell else self.inputs[wire.port]

    def styled(self, style: str) -> Netlist:
        """Return the same with memories of constants that are made as a style says."""
        cells = {
            name: replace(cell, style=style) if isinstance(cell, RomSource) else cell
            for name, cell in self.cells.items()
        }
        return replace(self, cells=cells)

    def on(self, device: Device, outside: Collection[str] = ()) -> Netlist:
        """Return the same with cells that make use of where they are.

        Args:
            device: whose blocks there are.
            outside: constant operands that come from outside the chip.
        """
        away = {self.constants.get(operand) for operand in outside}
        memories = {name for name, cell in self.cells.items() if isinstance(cell, RomSource)} - away
        cells = {
            name: cell.on(
                device,
                {
                    port
                    for (owner, port), wire in self.links.items()
                    if owner == name and wire.cell in memories
                },
            )
            for name, cell in self.cells.items()
        }
        return replace(self, cells=cells)

    def source(self, operand: str) -> RomSource:
        """Return the cell that sends a constant operand."""
        cell = self.cells[self.constants[operand]]
        assert isinstance(cell, RomSource)
        return cell

    @cached_property
    def flat(self) -> Netlist:
        """The same cells and streams, without cells that are netlists themselves."""
        if all(cell.contents is None for cell in self.cells.values()):
            return self
        cells: dict[str, Cell] = {}
        links: dict[tuple[str, str], Wire] = {}
        made = {Wire("", name): Wire("", name) for name in self.inputs}
        for name, cell in self.cells.items():
            given = {
                port: made[wire] for (owner, port), wire in self.links.items() if owner == name
            }
            if cell.contents is None:
                cells[name] = cell
                links |= {(name, port): wire for port, wire in given.items()}
                made |= {Wire(name, port): Wire(name, port) for port in cell.outputs}
                continue
            inner = cell.contents.flat
            cells |= {f"{name}.{part}": item for part, item in inner.cells.items()}
            outer = {Wire("", port): wire for port, wire in given.items()}
            outer |= {
                Wire(part, port): Wire(f"{name}.{part}", port)
                for part, item in inner.cells.items()
                for port in item.outputs
            }
            links |= {
                (f"{name}.{part}", port): outer[wire]
                for (part, port), wire in inner.links.items()
                if wire in outer
            }
            made |= {Wire(name, port): outer[wire] for port, wire in inner.outputs.items()}
        outputs = {port: made[wire] for port, wire in self.outputs.items()}
        return Netlist(self.inputs, cells, links, outputs, self.constants)

    def run(self, arrivals: Arrivals, gone: Cycles | None = None) -> Flow:
        """Return when beats move, from idle.

        Args:
            arrivals: when each beat of each input is offered, and of constants that may be late.
            gone: when each beat of the first output goes; None to consumers that are always ready.
        """
        if self.flat is not self:
            return self.flat.run(arrivals, gone)
        if self.is_wire and gone is not None:
            (name,) = self.inputs
            return Flow({name: np.maximum(arrivals[name], gone)}, {"data_out_0": arrivals[name]})
        streams: dict[Wire, Cycles] = {
            Wire("", name): cycles for name, cycles in arrivals.items() if name in self.inputs
        }
        for operand, name in self.constants.items():
            if operand in arrivals:
                wire = Wire(name, next(iter(self.cells[name].outputs)))
                streams[wire] = arrivals[operand]
        taken: dict[Wire, Cycles] = {}
        for name, cell in self.cells.items():
            given = {
                port: streams[wire]
                for (owner, port), wire in self.links.items()
                if owner == name and wire in streams
            }
            if not given:
                continue
            for port, cycles in self._taken(name, given).items():
                taken[self.links[name, port]] = cycles
            streams[Wire(name, next(iter(cell.outputs)))] = cell.motion.offered(given)
        if gone is not None:
            taken[next(iter(self.outputs.values()))] = gone
        if gone is not None or self._joins_streams:
            self._hold_up(streams, taken)
        by_operand = {Wire("", name): name for name in self.inputs}
        by_operand |= {
            Wire(name, next(iter(self.cells[name].outputs))): operand
            for operand, name in self.constants.items()
        }
        return Flow(
            {name: taken[wire] for wire, name in by_operand.items() if wire in taken},
            {name: streams[wire] for name, wire in self.outputs.items() if wire in streams},
        )

    @cached_property
    def moves(self) -> int:
        """Beats that move in one inference, of all streams."""
        ports = [*self.inputs.values(), *map(self.port, self.outputs.values())]
        ports += [
            port
            for cell in self.flat.cells.values()
            for port in [*cell.inputs.values(), *cell.outputs.values()]
        ]
        return sum(port.beats for port in ports)

    def sketch(
        self,
        arrivals: Mapping[str, Curve],
        gone: Cycles | None = None,
        steps: Mapping[str, float] | None = None,
    ) -> Sketch:
        """Return when some beats move, from idle.

        Args:
            arrivals: when each input is offered.
            gone: when these beats of the first output go; None to a consumer that is always ready.
            steps: by constant operand from outside, cycles between its words, at least.
        """
        if self.flat is not self:
            return self.flat.sketch(arrivals, gone, steps)
        end = self.outputs["data_out_0"]
        streams = self._sketched(arrivals, steps or {})
        taken: dict[Wire, Curve] = {}
        if gone is not None:
            taken[end] = Curve(streams[end].beats, np.maximum(gone, streams[end].times))
        for motion, given, result in reversed(self._motions):
            curves = {port: streams[wire] for port, wire in given.items() if wire in streams}
            if not curves:
                continue
            leaves = taken.get(result, streams[result])
            for port, curve in held(motion, curves, streams[result], leaves).items():
                taken[given[port]] = curve
        found = {name: taken.get(Wire("", name), curve) for name, curve in arrivals.items()}
        if gone is not None:
            streams = self._sketched(found, steps or {})
        return Sketch(found, streams[end])

    def _sketched(
        self, arrivals: Mapping[str, Curve], steps: Mapping[str, float]
    ) -> dict[Wire, Curve]:
        """Return when some beats of each stream are offered to consumers that are always ready."""
        slow = {self.constants[name]: step for name, step in steps.items()}
        streams = {Wire("", name): curve for name, curve in arrivals.items()}
        for motion, given, result in self._motions:
            curves = {port: streams[wire] for port, wire in given.items() if wire in streams}
            if not curves:
                continue
            (beats, *_) = (curve.beats for curve in curves.values())
            known = result.cell in self.cells and result.port in self.cells[result.cell].outputs
            results = self.port(result).beats if known else motion.results(beats)
            step = max([1.0, *(slow.get(wire.cell, 1.0) for wire in given.values())])
            streams[result] = stage(motion, curves, results, step)
        return streams

    @cached_property
    def _motions(self) -> list[tuple[Motion, dict[str, Wire], Wire]]:
        """The motions of all cells, with what drives their inputs and what they drive."""
        found = []
        for name, cell in self.cells.items():
            given = {port: wire for (owner, port), wire in self.links.items() if owner == name}
            made, motions = next(iter(cell.outputs)), cell.motion.stages if given else ()
            for number, motion in enumerate(motions, 1):
                port = made if number == len(motions) else f"{made}.{number}"
                found.append((motion, given, Wire(name, port)))
                given = {"": Wire(name, port)}
        return found

    @cached_property
    def _joins_streams(self) -> bool:
        """Whether an input may wait inside for another one."""
        joined = [owner for owner, _ in self.links]
        made = {wire.cell for wire in self.links.values()} - {"", *self.constants.values()}
        return len(self.inputs) > 1 and bool(made) and len(set(joined)) < len(joined)

    def _hold_up(self, streams: dict[Wire, Cycles], taken: dict[Wire, Cycles]) -> None:
        """Let cells that wait for one stream hold up the cells that send another, until all agree.

        Args:
            streams: when beats are offered to consumers that are always ready; brought up to date.
            taken: when they are taken; brought up to date.
        """
        settled = False
        while not settled:
            settled = True
            for name, cell in reversed(list(self.cells.items())):
                made = Wire(name, next(iter(cell.outputs)))
                ports = {
                    port: wire
                    for (owner, port), wire in self.links.items()
                    if owner == name and wire in streams
                }
                if made not in streams or not ports:
                    continue
                given = {port: streams[wire] for port, wire in ports.items()}
                gone = taken.get(made, np.full(streams[made].size, -1))
                moves = cell.motion.moves(given, gone)
                now = {made: moves.offered}
                before = {made: streams[made]}
                for port, wire in ports.items():
                    now[wire], before[wire] = moves.taken[port], taken[wire]
                    taken[wire] = moves.taken[port]
                streams[made] = moves.offered
                settled &= all(np.array_equal(now[wire], before[wire]) for wire in now)

    def _taken(self, name: str, given: Arrivals) -> dict[str, Cycles]:
        """Return when a cell takes its beats; constants, beat for beat with what comes."""
        cell = self.cells[name]
        taken = dict(cell.motion.taken(given))
        first = next(iter(given))
        for owner, port in self.links:
            constant = owner == name and port not in taken
            if constant and cell.inputs[port].beats == cell.inputs[first].beats:
                taken[port] = taken[first]
        return taken

    def needs(self, name: str) -> Cycles:
        """Return the last beat of an input that each beat of the first output needs."""
        needs = np.arange(self.inputs[name].beats)
        for cell, port in self.path(name):
            needs = through(cell.motion.needs(port, needs.size), needs)
        return needs

    def room(self, name: str) -> Cycles:
        """Return which result must have gone before each beat of an input; negative for none."""
        beats, rooms = self.inputs[name].beats, []
        for cell, port in self.path(name):
            rooms.append(cell.motion.room(port, beats))
            beats = cell.motion.needs(port, beats).size
        return follow(rooms)

    def needs_of(self, name: str, results: Cycles) -> Cycles:
        """Return what some results need: `needs` without all the others."""
        needs = results
        for motion, port, beats in reversed(self._stages(name)):
            found = motion.needs_of(port, beats, np.maximum(needs, 0))
            needs = np.where(needs < 0, -1, found)
        return needs

    def room_of(self, name: str, places: Cycles) -> Cycles:
        """Return what must have gone before some beats: `room` without all the others."""
        room = places
        for motion, port, beats in self._stages(name):
            found = motion.room_of(port, beats, np.clip(room, 0, beats - 1))
            room = np.where(room < 0, -1, found)
        return room

    def turns(self, name: str) -> dict[str, tuple[Cycles, Cycles]]:
        """Return, of each input that takes turns with one, what is taken before and with its beats.

        Those are the last beat of the other one that is taken before, and the one that is taken in
        the same cycle, negative for none. Where a cell stands before the one that takes turns,
        beats wait in it, and the inputs do not take turns themselves.
        """
        (cell, port), *_ = self.path(name)
        turns = {}
        for other in self.inputs.keys() - {name} - self.constants.keys():
            (second, entrance), *_ = self.path(other)
            found = cell.motion.turns(port, entrance, self.inputs[name].beats)
            if second is cell and found is not None:
                turns[other] = found
        return turns

    def _stages(self, name: str) -> list[tuple[Motion, str, int]]:
        """Return the motions from an input to the first output, with their ports and beats."""
        beats, found = self.inputs[name].beats, []
        for cell, port in self.path(name):
            first, *others = cell.motion.stages
            found.append((first, port, beats))
            for motion in others:
                beats = found[-1][0].results(beats)
                found.append((motion, "", beats))
            beats = next(iter(cell.outputs.values())).beats
        return found

    def path(self, name: str) -> list[tuple[Cell, str]]:
        """Return the cells from an input to the first output, with the port on which it enters."""
        if self.flat is not self:
            return self.flat.path(name)
        found: list[tuple[Cell, str]] = []
        wire = Wire("", name)
        while wire not in self.outputs.values():
            (owner, port), *others = (key for key, driver in self.links.items() if driver == wire)
            assert not others, "a stream inside a netlist goes to one cell"
            found.append((self.cells[owner], port))
            wire = Wire(owner, next(iter(self.cells[owner].outputs)))
        return found


def in_turn(netlists: Sequence[Netlist], same: Collection[str]) -> Netlist:
    """Return a netlist that does in turn, inference by inference, what several would do.

    Args:
        netlists: of the same cells, joined in the same way.
        same: constant operands that are the same in all of them.

    Raises:
        EmissionError: where a cell differs otherwise than in its constants.
    """
    first, *others = netlists
    for other in others:
        if other.cells.keys() != first.cells.keys() or other.links != first.links:
            raise EmissionError("the layers are not made of the same cells")
    operands = {name: operand for operand, name in first.constants.items()}
    taken = {
        wire.cell: first.cells[owner].inputs[port].beats
        for (owner, port), wire in first.links.items()
    }
    cells: dict[str, Cell] = {}
    for name, cell in first.cells.items():
        cells[name] = cell
        if operands.get(name) in same:
            continue
        all_ = [netlist.cells[name] for netlist in netlists]
        sources = [item for item in all_ if isinstance(item, RomSource)]
        if len(sources) == len(all_):
            cells[name] = LayerSource.of_layers(sources, taken[name])
        else:
            cells[name] = cell.in_turn(all_[1:])
    return replace(first, cells=cells)


class NetlistBuilder:
    """Builds a netlist, cell by cell, in dataflow order.

    Args:
        inputs: the streams that enter.

    Examples:
        >>> net = NetlistBuilder({"data_in_0": Port.elements(Encoding(8), 4, 16)})
        >>> wire = net.input("data_in_0")
        >>> net.netlist(data_out_0=wire).is_wire
        True
    """

    def __init__(self, inputs: Mapping[str, Port]) -> None:
        self._inputs = dict(inputs)
        self._cells: dict[str, Cell] = {}
        self._links: dict[tuple[str, str], Wire] = {}
        self._constants: dict[str, str] = {}

    def port(self, wire: Wire) -> Port:
        """Return the port that drives a wire."""
        return self._cells[wire.cell].outputs[wire.port] if wire.cell else self._inputs[wire.port]

    def input(self, name: str) -> Wire:
        """Return an input of the netlist."""
        if name not in self._inputs:
            raise EmissionError(f"no input {name!r}; there are {', '.join(self._inputs)}")
        return Wire("", name)

    def source(self, operand: str, spec: TensorSpec, codes: Callable[[], Tensor]) -> Wire:
        """Add the memory of a constant operand; return its stream.

        Args:
            operand: its name, `weight` say.
            spec: shape, format and parallelism of the stream.
            codes: returns int64 codes of the spec's shape.
        """
        return self.memory(operand, RomSource.of(spec, lambda: spec.to_beats(codes())))

    def memory(self, operand: str, cell: RomSource) -> Wire:
        """Add a memory that sends a constant operand; return its stream."""
        name = f"{operand}_source_0"
        self._constants[operand] = name
        self._cells[name] = cell
        return Wire(name, next(iter(cell.outputs)))

    def add(self, cell: Cell, name: str = "", **inputs: Wire | None) -> Wire:
        """Add a cell; return its first output.

        Args:
            cell: the cell.
            name: the part of its instance's name behind the node's; empty for the main cell.
            inputs: the drivers of its inputs by port; None and ports left out stay unconnected.

        Raises:
            EmissionError: for a port that the cell does not have, or one without a driver.
        """
        instance = f"{name}_{INSTANCE}" if name else INSTANCE
        ports = [port for port, item in cell.inputs.items() if item.beats]
        given = {port: wire for port, wire in inputs.items() if wire is not None}
        if given.keys() != set(ports):
            raise EmissionError(
                f"cell {type(cell).__name__} has the inputs {', '.join(sorted(ports)) or 'none'}; "
                f"connected are {', '.join(sorted(given)) or 'none'}"
            )
        if instance in self._cells:
            raise EmissionError(f"two cells of a netlist are called {name!r}")
        self._cells[instance] = cell
        for port, wire in given.items():
            self._links[instance, port] = wire
        return Wire(instance, next(iter(cell.outputs)))

    def netlist(self, **outputs: Wire) -> Netlist:
        """Return what was built."""
        return Netlist(self._inputs, self._cells, self._links, outputs, self._constants)
