"""Netlists: cells joined by streams, from which timing, emission and reports are derived."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from torch import Tensor

from mase_hw.cells._base import Cell, Port
from mase_hw.cells._device import Device
from mase_hw.cells.layer_source import LayerSource
from mase_hw.cells.rom_source import RomSource
from mase_hw.errors import EmissionError
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
                {port for port, wire in self.drivers(name).items() if wire.cell in memories},
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
        if not any(isinstance(cell, Nested) for cell in self.cells.values()):
            return self
        cells: dict[str, Cell] = {}
        links: dict[tuple[str, str], Wire] = {}
        made = {Wire("", name): Wire("", name) for name in self.inputs}
        for name, cell in self.cells.items():
            given = {port: made[wire] for port, wire in self.drivers(name).items()}
            if not isinstance(cell, Nested):
                cells[name] = cell
                links |= {(name, port): wire for port, wire in given.items()}
                made |= {Wire(name, port): Wire(name, port) for port in cell.outputs}
                continue
            inner = cell.netlist.flat
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

    @cached_property
    def beats(self) -> int:
        """Beats that move in one inference, of all streams."""
        ports = [*self.inputs.values(), *map(self.port, self.outputs.values())]
        ports += [
            port
            for cell in self.flat.cells.values()
            for port in [*cell.inputs.values(), *cell.outputs.values()]
        ]
        return sum(port.beats for port in ports)

    def drivers(self, name: str) -> dict[str, Wire]:
        """Wires that drive the connected inputs of a cell."""
        return {port: wire for (owner, port), wire in self.links.items() if owner == name}

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


def multiplexed(netlists: Sequence[Netlist], same: Collection[str]) -> Netlist:
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
            cells[name] = cell.multiplexed(all_[1:])
    return replace(first, cells=cells)


class Nested(Cell):
    """A cell whose module is the text of a netlist.

    Attributes:
        netlist: what it is made of.
    """

    netlist: Netlist


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
        """Finish the netlist with these outputs."""
        return Netlist(self._inputs, self._cells, self._links, outputs, self._constants)
