"""Losses beside number formats: they read inputs as they are, and have no hardware."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch.fx import Node
from torch.fx.node import map_aggregate

from mase_hw.formats import Format
from mase_hw.graph.losses import loss_nodes
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common, update
from mase_hw.graph.streams import refresh_output
from mase_hw.ops import operator_for_role
from mase_hw.passes._insert import insert_after
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical.remove_identity import erase_node
from mase_hw.passes.formats.cast import ROLE


def part_inputs(mg: MaseGraph, losses: set[Node]) -> None:
    """Round inputs behind a cast, in place, where a loss reads them too: it takes them as given."""
    for node in mg.inputs:
        given = common(node).results["data_out_0"]
        if given.format is None or losses.isdisjoint(node.users):
            continue
        cast = insert_after(mg, node, ROLE, given, given)
        for user in [item for item in node.users if item not in losses and item is not cast]:
            user.replace_input_with(node, cast)
        _set_format(node, None)
    refresh_output(mg)
    mg.recompile()


@graph_pass
def drop_losses_transform_pass(mg: MaseGraph) -> Result:
    """Take losses out of the graph, with their labels: they are None among its results.

    A graph that returns nothing else stays as it is.

    Returns:
        A new graph, and `{"dropped": names of the results}`.
    """
    mg = mg.copy()
    losses = loss_nodes(mg)
    dropped = [name for name, leaf in mg.returned() if leaf in losses]
    if not dropped or losses.issuperset(mg.outputs):
        return mg, {"dropped": []}
    (output,) = (node for node in mg.nodes if node.op == "output")
    output.args = map_aggregate(output.args, lambda leaf: None if leaf in losses else leaf)
    labels = [node for node in mg.inputs if node in losses]
    kept = [node not in labels for node in mg.inputs]
    mg.example_inputs = tuple(
        value for value, keep in zip(mg.example_inputs, kept, strict=True) if keep
    )
    mg.fx_graph.eliminate_dead_code()
    for node in labels:
        erase_node(mg, node)
    for node, cast in list(_parted(mg)):
        _set_format(node, common(cast).results["data_out_0"].format)
        cast.replace_all_uses_with(node)
        erase_node(mg, cast)
    refresh_output(mg)
    mg.recompile()
    return mg, {"dropped": dropped}


def _parted(mg: MaseGraph) -> Iterator[tuple[Node, Node]]:
    """Yield the inputs that are rounded behind a cast, with it."""
    role = operator_for_role(ROLE).name
    for node in mg.inputs:
        for user in node.users:
            rounds = user.op == "call_function" and common(user).operator == role
            if rounds and common(node).results["data_out_0"].format is None:
                yield node, user


def _set_format(node: Node, number_format: Format | None) -> None:
    known = common(node)
    specs = {name: spec.with_format(number_format) for name, spec in known.results.items()}
    update(node, common=replace(known, results=specs))
