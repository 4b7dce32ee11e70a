"""Insertion into one of several equal layers, repeated in all of them."""

from __future__ import annotations

from torch.fx import Node

from mase_hw.graph.loops import loops_of
from mase_hw.graph.mase_graph import MaseGraph


class Copies:
    """The nodes of a graph that one node of its hardware stands for.

    Args:
        mg: the whole graph.
    """

    def __init__(self, mg: MaseGraph) -> None:
        self._nodes = {node.name: node for node in mg.nodes}
        self._given: dict[str, tuple[Node, ...]] = {}
        self._takers: dict[str, tuple[Node, ...]] = {}
        self._rows: set[str] = set()
        for loop in loops_of(mg):
            layers = {nodes[0].name: nodes for nodes in loop.places}
            self._given |= layers
            self._takers |= layers
            for row in loop.states:
                self._given[row[0].name] = row[:-1]
                self._takers[row[-1].name] = row[1:]
                if loop.goes_on(row[-1]):
                    self._given[row[-1].name] = row[1:]
            self._rows |= {node.name for node in loop.collects}

    def producers(self, node: Node) -> tuple[Node, ...]:
        """Producers of a node, one per reused layer."""
        return self._given.get(node.name, (self._nodes[node.name],))

    def edges(self, producer: Node, user: Node, operand: str, copy: int) -> list[tuple[Node, str]]:
        """Return who takes that result of one layer, and as which operand.

        Args:
            producer: of the hardware.
            user: of the hardware, which takes it.
            operand: as this one.
            copy: number of the layer.
        """
        takers = self._takers.get(user.name, (self._nodes[user.name],))
        if len(self.producers(producer)) == 1:
            return [(node, operand) for node in takers]
        if user.name in self._rows:
            return [(takers[0], f"data_in_{copy}")]
        return [(takers[copy], operand)]
