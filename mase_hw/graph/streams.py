"""Which streams a node consumes, and who consumes a node's."""

from __future__ import annotations

from collections.abc import Iterator

from torch.fx import Node

from mase_hw.graph.calls import result_spec, tensor_arguments
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import CommonMetadata, update
from mase_hw.ops import OPERAND_NAMES, operator_for


def stream_operands(node: Node) -> list[tuple[str, Node]]:
    """Return (operand name, producer) for every operand of `node` that streams, in order."""
    operator = operator_for(node.target)
    names = operator.operand_names if operator else OPERAND_NAMES
    return [
        (name, value)
        for name, value in tensor_arguments(node, names)
        if isinstance(value, Node) and value.op != "get_attr"
    ]


def refresh_output(mg: MaseGraph) -> None:
    """Note on the output node what its producers now are."""
    for node in mg.nodes:
        if node.op == "output":
            given = {
                f"data_in_{index}": result_spec(producer)
                for index, producer in enumerate(mg.outputs)
            }
            update(node, common=CommonMetadata(None, given, {}))


def consumers(node: Node) -> Iterator[tuple[Node, str]]:
    """Yield (consumer, operand name) for every use of `node` by an operator, in graph order."""
    for user in node.users:
        if user.op == "call_function":
            for name, producer in stream_operands(user):
                if producer is node:
                    yield user, name
