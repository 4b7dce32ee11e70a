"""A netlist as a cell of another: one module with generated text, instanced any number of times."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mase_hw.cells._base import PARAMETER, Cell, Image, Port, Value, fact
from mase_hw.cells._components import Components
from mase_hw.cells._motion import Chain, Motion
from mase_hw.cells._netlist import INSTANCE, Nested, Netlist, NetlistBuilder, Wire
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.formats import Encoding


@dataclass(frozen=True)
class Composite(Nested):
    """Cells joined by streams, in a module of their own.

    Its module has a parameter for the file of each memory inside, named after the cell and the
    parameter there. Constants inside stay on the chip; one that may lie outside enters as a stream.

    Attributes:
        name: of the module.
        netlist: what it is made of.
        title: what the comment above the module says.
    """

    name: str = field(metadata={PARAMETER: False})
    netlist: Netlist = field(metadata={PARAMETER: False})
    title: str = fact("")

    @property
    def module(self) -> str:
        """The name that it was given."""
        return self.name

    @property
    def shape(self) -> Hashable:
        """What decides the text of the module: all but the words of memories, name and title."""
        cells = [
            (
                name,
                cell.module,
                cell.shape if isinstance(cell, Composite) else (*cell.parameters.items(),),
                *cell.inputs.items(),
                *cell.outputs.items(),
                *cell.images,
            )
            for name, cell in self.netlist.cells.items()
        ]
        ports = (*self.inputs.items(), *self.outputs.items())
        links = (*self.netlist.links.items(), *self.netlist.outputs.items())
        return (*cells, *links, *ports)

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {name: _open(port) for name, port in self.netlist.inputs.items()}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {name: _open(self.netlist.port(wire)) for name, wire in self.netlist.outputs.items()}

    @property
    def motion(self) -> Motion:
        """From its first input through all cells; netlists around it look inside."""
        path = self.netlist.path(next(iter(self.inputs)))
        return Chain(tuple(cell.motion for cell, _ in path))

    @property
    def components(self) -> Components:
        return Components.of(*(cell.components for cell in self.netlist.cells.values()))

    @property
    def multipliers(self) -> int:
        return self.netlist.multipliers

    @property
    def busy_cycles(self) -> int:
        """Those of its slowest cell or longest port."""
        return self.netlist.busy_cycles

    @property
    def repeated(self) -> tuple[str, ...]:
        found = {module for cell in self.netlist.cells.values() for module in cell.repeated}
        return tuple(sorted(found))

    @property
    def parameters(self) -> Mapping[str, Value]:
        return {}

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        """Those of all cells, under the name of the cell."""
        found = {}
        for (name, parameter), own in self.files.items():
            part, image = self.netlist.cells[name].images[parameter]
            stem = name.removesuffix(INSTANCE).removesuffix("_")
            found[own] = ("_".join(word for word in (stem, part) if word), image)
        return found

    @property
    def files(self) -> Mapping[tuple[str, str], str]:
        """Its parameter for the file of each memory, by cell and parameter there."""
        return {
            (name, parameter): "_".join(
                word for word in (name.removesuffix(INSTANCE).upper().strip("_"), parameter) if word
            )
            for name, cell in self.netlist.cells.items()
            for parameter in cell.images
        }

    @classmethod
    def of(cls, name: str, netlist: Netlist, title: str = "") -> Composite:
        """Return the cells of a netlist but the memories of constants, which enter as streams.

        Args:
            name: of the module.
            netlist: what is put into it.
            title: what the comment above the module says.
        """
        constants = {
            Wire(cell, next(iter(netlist.cells[cell].outputs))): operand
            for operand, cell in netlist.constants.items()
        }
        ports = {operand: netlist.port(wire) for wire, operand in constants.items()}
        inside = {wire: Wire("", operand) for wire, operand in constants.items()}
        sources = netlist.constants.values()
        inner = Netlist(
            {**netlist.inputs, **ports},
            {key: cell for key, cell in netlist.cells.items() if key not in sources},
            {key: inside.get(wire, wire) for key, wire in netlist.links.items()},
            netlist.outputs,
        )
        return cls(name, inner, title)

    def within(self, netlist: Netlist) -> Netlist:
        """Return the netlist that this is `of`, with this cell in the place of its cells."""
        sources = {cell: netlist.cells[cell] for cell in netlist.constants.values()}
        links = {(INSTANCE, port): Wire("", port) for port in netlist.inputs}
        links |= {
            (INSTANCE, operand): Wire(cell, next(iter(sources[cell].outputs)))
            for operand, cell in netlist.constants.items()
        }
        outputs = {port: Wire(INSTANCE, port) for port in netlist.outputs}
        cells = {**sources, INSTANCE: self}
        return Netlist(netlist.inputs, cells, links, outputs, netlist.constants)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Two queues one behind the other, in a module; that module twice, in another."""
        port = Port.elements(Encoding(4), 2, 6)
        net = NetlistBuilder({"data_in_0": port})
        first = net.add(StreamFifo(port, 2), "first", data_in=net.input("data_in_0"))
        second = net.add(StreamFifo(port, 3), "second", data_in=first)
        pair = cls("two_queues", net.netlist(data_out_0=second))
        outer = NetlistBuilder({"data_in_0": port})
        half = outer.add(pair, "first", data_in_0=outer.input("data_in_0"))
        whole = outer.add(pair, "second", data_in_0=half)
        return (pair, cls("four_queues", outer.netlist(data_out_0=whole)))


def _open(port: Port) -> Port:
    """Return a port with a signal for each field, and no others."""
    return replace(port, packed=False, optional=())
