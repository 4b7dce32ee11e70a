"""Nodes of a loss: what a graph computes for its training, and hardware does not.

A loss mixes the inferences of a batch, so that nothing in it has the range of one inference: it is
left in real numbers. It is told from a model's results by the graph alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import nn
from torch.fx import Node

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common
from mase_hw.graph.rebuild import ancestors

# A result that its model calls so, by itself or in a table of losses.
_NAME = re.compile(r"(^|.*[._])loss(es)?(\..*)?")


def loss_nodes(mg: MaseGraph) -> set[Node]:
    """Return the nodes and inputs that only a loss reads.

    In a graph that returns nothing but losses, these are the nodes behind the last parameters;
    without any parameter it is a function like others, and has no loss.

    Args:
        mg: a graph with common metadata.
    """
    losses = loss_results(mg)
    kept = set(mg.outputs) - losses
    inside: set[Node] = set()
    for node in reversed([item for item in mg.nodes if item.op != "output"]):
        users = [user for user in node.users if user.op != "output"]
        if node.op == "get_attr" or node in kept or not inside.issuperset(users):
            continue
        read = [mg.constant(item) for item in node.all_input_nodes if item.op == "get_attr"]
        trains = any(isinstance(item, nn.Parameter) for item in read)
        if (users or node in losses) and (kept or not trains):
            inside.add(node)
    whole = {item for item in mg.nodes if item.op not in ("get_attr", "output")} <= inside
    return set() if whole else inside


def loss_results(mg: MaseGraph) -> set[Node]:
    """Return the results of a graph that are losses.

    A loss is one number for all rows of a batch; or it reads an input that no other result reads,
    the labels, and is called a loss, or is one number that is computed of another result.

    Args:
        mg: a graph with common metadata.
    """
    reads = _inputs_read(mg)
    results = [item for item in mg.returned() if isinstance(item[1], Node) and reads[item[1]]]
    numbers = {leaf for _, leaf in results if not common(leaf).results["data_out_0"].shape}
    called = {leaf for name, leaf in results if _NAME.fullmatch(name)}
    others = {leaf for _, leaf in results} - numbers - called
    known = frozenset[Node]().union(*(reads[item] for item in others))
    labelled = {leaf for _, leaf in results if not reads[leaf] <= known}
    compared = {leaf for leaf in numbers & labelled if others & {*ancestors(leaf)} - {leaf}}
    return (numbers if mg.batched else compared) | (called & labelled)


def _inputs_read(mg: MaseGraph) -> Mapping[Node, frozenset[Node]]:
    reads: dict[Node, frozenset[Node]] = {}
    for node in mg.nodes:
        own = [node] if node.op == "placeholder" else []
        reads[node] = frozenset(own).union(*(reads[item] for item in node.all_input_nodes))
    return reads
