"""Expand streams that meet one of a larger shape."""

from __future__ import annotations

from dataclasses import replace

from torch.fx import Node

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, insert_after, refresh_output, stream_operands, update
from mase_hw.ops import Broadcasting, operators
from mase_hw.passes._pass import Result, graph_pass

ROLE = "broadcast"


@graph_pass
def insert_broadcasts_transform_pass(mg: MaseGraph) -> Result:
    """Insert a node on every operand that is smaller than the result, of operators that broadcast.

    Args:
        mg: a graph with orders.

    Returns:
        The graph, and `{"broadcasts": names of the inserted nodes}`.
    """
    mg = mg.copy()
    inserted: list[Node] = []
    for node in list(mg.nodes):
        operator = operators().get(str(common(node).operator))
        if node.op != "call_function" or not isinstance(operator, Broadcasting):
            continue
        result = common(node).results["data_out_0"]
        for name, producer in stream_operands(node):
            given = common(node).operands[name]
            if given.shape == result.shape:
                continue
            wanted = replace(given, shape=result.shape, order=result.order)
            # The batch stays as it comes, where there is one to stay.
            kept = len(given.shape) == len(result.shape) and given.shape[0] == result.shape[0]
            size = [-1 if kept else result.shape[0], *result.shape[1:]]
            inserted.append(insert_after(producer, ROLE, given, wanted, (size,)))
            node.replace_input_with(producer, inserted[-1])
            operands = {**common(node).operands, name: wanted}
            update(node, common=replace(common(node), operands=operands))
    refresh_output(mg.model)
    mg.recompile()
    return mg, {"broadcasts": [node.name for node in inserted]}
