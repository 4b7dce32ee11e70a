"""`remove_identity_transform_pass`: nodes that return their operand leave the graph."""

from __future__ import annotations

from mase_hw.graph import MaseGraph, common
from mase_hw.graph.nodes import erase_node
from mase_hw.ops import Removable
from mase_hw.passes._pass import Result, graph_pass


@graph_pass
def remove_identity_transform_pass(mg: MaseGraph, *, training: bool = False) -> Result:
    """Remove every node whose operator says that its result is its operand.

    Args:
        mg: the graph, with common metadata.
        training: keeps the nodes that act while the model is trained.

    Returns:
        A new graph, and `{"removed": [node names]}`.
    """
    mg = mg.copy()
    removed = []
    for node in mg.nodes:
        if node.op != "call_function" or common(node).operator is None:
            continue
        call = mg.call(node)
        removable = Removable.of(call.operator)
        if removable.is_identity(call) and not (training and removable.trains(call)):
            node.replace_all_uses_with(node.all_input_nodes[0])
            erase_node(node)
            removed.append(node.name)
    mg.recompile()
    return mg, {"removed": removed}
