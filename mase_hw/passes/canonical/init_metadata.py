"""`init_metadata_analysis_pass`: every node gets its module path and its source line."""

from __future__ import annotations

from mase_hw.graph import MaseGraph, MaseMetadata, metadata
from mase_hw.graph.metadata import Rounding
from mase_hw.graph.nodes import location, update
from mase_hw.graph.origin import origin
from mase_hw.graph.rounded import is_rounding, rounded_format
from mase_hw.passes._pass import Result, graph_pass


@graph_pass
def init_metadata_analysis_pass(mg: MaseGraph) -> Result:
    """Start the metadata of every node anew: where it comes from, and what passes must not lose.

    Args:
        mg: the graph.
    """
    for node in mg.nodes:
        module_path, source = origin(node)
        old = metadata(node)
        node.meta["mase"] = MaseMetadata(
            module_path,
            source,
            pruned=old.pruned,
            declared=old.declared,
            exact=old.exact,
            folded=old.folded,
            roundings=old.roundings,
        )
        number = rounded_format(node) if is_rounding(node) else None
        if number is not None and not old.roundings:
            own = Rounding(node.name, "data_out_0", number, location(node))
            update(node, roundings=(own,))
    # The output names all of them, whatever becomes of the nodes.
    every = {item.name: item for node in mg.nodes for item in metadata(node).roundings}
    update(mg.fx_graph.output_node(), roundings=tuple(every.values()))
    return mg, {}
