"""Insert a cast on every edge whose two ends have different number formats."""

from __future__ import annotations

from torch.fx import Node

from mase_hw.formats import Format
from mase_hw.graph.loops import is_boundary
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.graph.streams import refresh_output, stream_operands
from mase_hw.passes._insert import insert_after
from mase_hw.passes._pass import Result, graph_pass

ROLE = "cast"


@graph_pass
def insert_casts_transform_pass(mg: MaseGraph) -> Result:
    """Insert casts; consumers of one stream in one format share the cast.

    Returns:
        The graph, and `{"casts": names of the inserted nodes}`.
    """
    mg = mg.copy()
    casts: dict[tuple[Node, Format, Node | None], Node] = {}
    for node in mg.nodes:
        if node.op != "call_function":
            continue
        for name, producer in stream_operands(node):
            wanted = common(node).operands[name].format
            given = common(producer).results["data_out_0"]
            if wanted is None or given.format is None or wanted == given.format:
                continue
            # The layers on both sides of a loop boundary read it, each through its own cast.
            own = node if is_boundary(producer) else None
            key = producer, wanted, own
            if key not in casts:
                result = given.with_format(wanted)
                casts[key] = insert_after(mg, producer, ROLE, given, result)
                if own is not None:
                    own.prepend(casts[key])
            node.replace_input_with(producer, casts[key])
    refresh_output(mg)
    mg.recompile()
    return mg, {"casts": [node.name for node in casts.values()]}
