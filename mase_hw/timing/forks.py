"""Forks: which operands a result goes to, and which of these may hold each other up."""

from __future__ import annotations

from collections import Counter

from torch.fx import Node

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import consumers

# An operand of a node.
Edge = tuple[Node, str]


def rejoining(mg: MaseGraph) -> dict[Node, list[Edge]]:
    """Return, by what forks, the operands that may hold each other up.

    Those are joined by a way that does not pass the fork, in whatever direction streams go on it:
    through a node that waits for both, or through other forks, each of which goes to two nodes that
    wait. Such operands lie in one block of the graph (Hopcroft and Tarjan 1973). So does one that
    meets what comes from before the fork, by another way.
    """
    # Commands that predict nothing start faster without it.
    import networkx as nx

    ways: nx.Graph[Node] = nx.Graph()
    edges = {
        node: list(consumers(node))
        for node in mg.nodes
        if node.op in ("placeholder", "call_function")
    }
    ways.add_edges_from((node, user) for node in edges for user, _ in edges[node])
    block = {
        frozenset(way): number
        for number, found in enumerate(nx.biconnected_component_edges(ways))
        for way in found
    }
    rejoining = {}
    for node, own in edges.items():
        users = [user for user, _ in own]
        beside = [*users, *(other for other in ways.adj.get(node, ()) if other not in users)]
        count = Counter(block[frozenset((node, other))] for other in beside)
        meet = [edge for edge in own if count[block[frozenset((node, edge[0]))]] > 1]
        if meet and len(own) > 1:
            rejoining[node] = meet
    return rejoining
