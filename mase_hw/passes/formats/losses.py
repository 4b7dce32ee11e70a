"""Losses beside number formats: they read inputs as they are, and have no hardware."""

from __future__ import annotations

from torch.fx import Node
from torch.fx.node import map_aggregate

from mase_hw.graph.losses import loss_nodes
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import (
    common,
    erase_node,
    insert_behind,
    is_cast,
    refresh_output,
    set_format,
)
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.formats.edges import ROLE


def part_inputs(mg: MaseGraph, losses: set[Node]) -> None:
    """Round inputs behind a cast, in place, where a loss reads them too: it takes them as given."""
    for node in mg.inputs:
        spec = common(node).results["data_out_0"]
        if spec.format is not None and not losses.isdisjoint(node.users):
            insert_behind(node, ROLE, spec, spec, but=losses)
            set_format(node, None)
    refresh_output(mg.model)
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
    output = mg.fx_graph.output_node()
    output.args = map_aggregate(output.args, lambda leaf: None if leaf in losses else leaf)
    examples = zip(mg.inputs, mg.example_inputs, strict=True)
    mg.example_inputs = tuple(value for node, value in examples if node not in losses)
    labels = [node for node in mg.inputs if node in losses]
    mg.fx_graph.eliminate_dead_code()
    for node in labels:
        erase_node(node)
    for node in mg.inputs:
        parted = common(node).results["data_out_0"].format is None
        for cast in [user for user in node.users if parted and is_cast(user)]:
            set_format(node, common(cast).results["data_out_0"].format)
            cast.replace_all_uses_with(node)
            erase_node(cast)
    refresh_output(mg.model)
    mg.recompile()
    return mg, {"dropped": dropped}
