"""A library module that is one whole node, as a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from mase_hw.cells import Cell, Image, Motion, Netlist, NetlistBuilder, Port, RomSource
from mase_hw.cells._motion import Arrivals
from mase_hw.formats import StreamField
from mase_hw.geometry.beats import Cycles
from mase_hw.geometry.tensor import TensorSpec

if TYPE_CHECKING:
    from mase_hw.ops._base import Call, Hardware

APART = 1 << 32


def whole_module(call: Call, hardware: Hardware | None) -> Netlist:
    """Return the netlist of one module and its memories."""
    net = NetlistBuilder({name: Port.of(spec) for name, spec in call.streams.items()})
    wires = {name: net.input(name) for name in call.streams}
    if hardware is None:
        return net.netlist(data_out_0=next(iter(wires.values())))
    constants = call.operator.constant_streams(call)
    for source in hardware.sources:
        beats = source.beats
        memory = RomSource.of_beats(
            constants[source.operand], len(beats), partial(_same, beats), hold=source.hold
        )
        wires[source.operand] = net.memory(source.operand, memory)
    return net.netlist(data_out_0=net.add(ModuleCell(call, hardware), "", **wires))


def _same(beats: Tensor) -> Tensor:
    return beats


@dataclass(frozen=True, eq=False)
class OperatorMotion(Motion):
    """What an operator says of its module."""

    call: Call

    def offered(self, arrivals: Arrivals) -> Cycles:
        """As the operator's schedule."""
        return self.call.operator.schedule(self.call, arrivals)

    def taken(self, arrivals: Arrivals) -> dict[str, Cycles]:
        """As the operator's consumption."""
        return self.call.operator.consumption(self.call, arrivals)

    def needs(self, port: str, beats: int) -> Cycles:
        """From the schedule of beats that come far apart."""
        needs: Cycles = self._apart(port) // APART - 1
        return needs

    def room(self, port: str, beats: int) -> Cycles:
        """As the operator's room."""
        used = {
            name: np.searchsorted(self.needs(name, 0), np.arange(spec.beats))
            for name, spec in self.call.streams.items()
        }
        delay = min(int((self._apart(name) % APART).min()) for name in used)
        return self.call.operator.room(self.call, used, delay)[port]

    def _apart(self, port: str) -> Cycles:
        beats = {name: spec.beats for name, spec in self.call.streams.items()}
        at_once = {name: np.zeros(count, np.int64) for name, count in beats.items()}
        apart = np.arange(1, beats[port] + 1) * APART
        offered = self.call.operator.schedule(self.call, at_once | {port: apart})
        found: Cycles = np.maximum.accumulate(offered)
        return found


@dataclass(frozen=True, eq=False)
class ModuleCell(Cell):
    """One module with the ports of its operator."""

    call: Call
    hardware: Hardware

    @property
    def module(self) -> str:
        """As the operator says."""
        return self.hardware.module

    @property
    def inputs(self) -> Mapping[str, Port]:
        """The operands."""
        constants = self.call.operator.constant_streams(self.call)
        given = {source.operand: constants[source.operand] for source in self.hardware.sources}
        ports = {name: Port.of(spec) for name, spec in {**self.call.streams, **given}.items()}
        absent = dict.fromkeys(self.hardware.absent, Port((StreamField("", 1, 1),), 0))
        return {**ports, **absent}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """The result."""
        return {"data_out_0": Port.of(self.call.result)}

    @property
    def motion(self) -> Motion:
        """As the operator says."""
        return OperatorMotion(self.call)

    @property
    def multipliers(self) -> int:
        """As the operator says."""
        return self.call.operator.multipliers(self.call)

    @property
    def busy_cycles(self) -> int:
        """As the operator says."""
        return self.call.operator.work_cycles(self.call)

    @property
    def signals(self) -> Mapping[str, str]:
        """Ports that are tied to zero."""
        return dict.fromkeys(self.hardware.zeros, "'0")

    @property
    def unread(self) -> tuple[str, ...]:
        """Ports that nobody reads."""
        return tuple(self.hardware.open)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Of every tensor, and the module's own."""
        call, hardware = self.call, self.hardware
        constants = call.operator.constant_streams(call)
        operands = {name: call.operands[name] for name in call.streams}
        operands |= {source.operand: constants[source.operand] for source in hardware.sources}
        found: dict[str, Any] = {}
        for name, spec in operands.items():
            found |= self._tensor(name, spec, rounds=False)
        found |= self._tensor("data_out_0", call.result, rounds=True)
        return {**found, **hardware.parameters}

    def _tensor(self, name: str, spec: TensorSpec, *, rounds: bool) -> dict[str, int]:
        number = spec.quantized
        given = number.result_parameters() if rounds else number.operand_parameters()
        given |= {
            "TENSOR_SIZE_DIM_0": spec.size[1],
            "TENSOR_SIZE_DIM_1": spec.size[0] * spec.leading,
            "PARALLELISM_DIM_0": spec.parallelism[1],
            "PARALLELISM_DIM_1": spec.parallelism[0],
        }
        return {f"{name.upper()}_{suffix}": value for suffix, value in given.items()}

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        """The tables."""
        return {
            table.parameter: (
                table.name,
                Image(table.width_bits, lambda table=table: table.words),  # type: ignore[misc]
            )
            for table in self.hardware.tables
        }
