"""`add_common_metadata_analysis_pass`: the operator and all tensors of every node."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

from torch.fx import Node

from mase_hw.errors import UnsupportedError
from mase_hw.graph import CommonMetadata, MaseGraph, MaseMetadata, metadata, update
from mase_hw.graph.calls import bind, operands
from mase_hw.graph.metadata import Rounding
from mase_hw.graph.nodes import location, result_spec
from mase_hw.graph.rounded import is_rounding, rounded_format
from mase_hw.graph.shapes import infer_specs
from mase_hw.graph.source import origin
from mase_hw.ops import TensorSpec, operator_for
from mase_hw.passes._pass import Result, graph_pass

Specs = Mapping[str, TensorSpec]


@graph_pass
def add_common_metadata_analysis_pass(mg: MaseGraph) -> Result:
    """Run one inference and note operator, shapes and dtypes on every node.

    Formats and parallelism that a node had before stay where its shapes did not change.

    Args:
        mg: the graph.

    Returns:
        The graph, and `{"unsupported": [node names without an operator]}`.
    """
    specs = infer_specs(mg)
    unsupported = []
    for node in mg.nodes:
        results = specs.get(node, {})
        tensors = _common(mg, node, results)
        update(node, common=_kept(metadata(node).common, tensors))
        if node.op == "call_function" and tensors.operator is None:
            unsupported.append(node.name)
    return mg, {"unsupported": unsupported}


def _common(mg: MaseGraph, node: Node, results: Specs) -> CommonMetadata:
    operator = operator_for(node.target) if node.op == "call_function" else None
    if operator is not None:
        # What an operator cannot be bound to it does not cover; `MaseGraph.call` says why.
        with contextlib.suppress(UnsupportedError):
            call = bind(mg.model, node, results)
            return CommonMetadata(operator.name, dict(call.operands), dict(call.results))
    if node.op == "output":
        taken = {
            f"data_in_{index}": result_spec(producer) for index, producer in enumerate(mg.outputs)
        }
    elif node.op == "call_function":
        taken = operands(mg.model, node)[0]
    else:
        taken = {}
    return CommonMetadata(None, taken, dict(results))


def _kept(old: CommonMetadata | None, new: CommonMetadata) -> CommonMetadata:
    if old is None:
        return new
    return replace(
        new, operands=_merged(old.operands, new.operands), results=_merged(old.results, new.results)
    )


def _merged(old: Specs, new: Specs) -> dict[str, TensorSpec]:
    return {
        name: replace(spec, format=old[name].format, parallelism=old[name].parallelism)
        if name in old and old[name].shape == spec.shape
        else spec
        for name, spec in new.items()
    }


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
