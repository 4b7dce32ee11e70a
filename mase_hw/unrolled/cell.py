"""The hardware unit of a whole network whose constants are logic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.cells import Cell, Components, Logic, Motion, Port, Steps, Value, stream_pipeline
from mase_hw.unrolled.logic import Logic as Network

# Look-up tables of Yosys, which merges adders of a stage, for one that is counted: fitted to three
# perceptrons of 1,700 to 2,900 adders and one layer, whose ratios are 1.065 to 1.083.
MERGING = 1.076


@dataclass(frozen=True, eq=False)
class Unrolled(Cell):
    """One module for a network, which takes an inference every cycle.

    Attributes:
        name: of the module.
        ports: streams that enter, whole tensors.
        results: streams that leave.
        network: what it computes.
    """

    name: str
    ports: Mapping[str, Port]
    results: Mapping[str, Port]
    network: Network

    @property
    def module(self) -> str:
        return self.name

    @property
    def parameters(self) -> Mapping[str, Value]:
        """None: everything is constant."""
        return {}

    @property
    def inputs(self) -> Mapping[str, Port]:
        return self.ports

    @property
    def outputs(self) -> Mapping[str, Port]:
        return self.results

    @property
    def width_bits(self) -> int:
        """Bits of all results."""
        return sum(port.width_bits for port in self.results.values())

    @property
    def latency(self) -> int:
        """Cycles from an inference to its results: the stages, and the queue."""
        return self.network.stages + 2

    @property
    def motion(self) -> Motion:
        """Nothing stops inside; results wait in a queue with room for all on their way."""
        return Steps(self.latency)

    @property
    def parts(self) -> Mapping[str, Components]:
        """Components by the node of the graph that they belong to; handshakes under no name."""
        found = {
            owner: Components.of(Logic(round(MERGING * tables), registers))
            for owner, (tables, registers) in self.network.costs.items()
        }
        return {**found, "": stream_pipeline(self.width_bits, self.network.stages)}

    @property
    def components(self) -> Components:
        return Components.of(*self.parts.values())
