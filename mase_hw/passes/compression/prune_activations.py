"""`prune_activations_transform_pass`: set values that stream between layers to zero.

By magnitude (`l1`), what is not larger than a threshold: an operator behind the layer, whose
threshold is the share `sparsity` of the magnitudes seen on data (Kurtz et al. 2020, "Inducing and
Exploiting Activation Sparsity for Fast Neural Network Inference"). By chance (`random`), always the
same positions of an inference: a product with a mask. Both are operators of the graph, which train,
quantise and become hardware like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.errors import ConfigError
from mase_hw.graph.encoding import decode_target
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import MaseMetadata
from mase_hw.graph.nodes import common, metadata, stream_operands, unique_name
from mase_hw.graph.rebuild import set_tensor
from mase_hw.ops import operator_for_role
from mase_hw.passes._pass import Result, worded_pass
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.compression.prune import best, check_pruning, own_words, prunable_weights
from mase_hw.passes.formats.calibrate import observe
from mase_hw.registry import nearest

RESULT = "data_out_0"
SHRINK, MASK = "shrink", "mask"


@worded_pass(own_words)
def prune_activations_transform_pass(
    mg: MaseGraph,
    *,
    sparsity: float | None = None,
    criterion: str = "l1",
    scope: str = "local",
    seed: int = 0,
    nodes: Sequence[str] | None = None,
    data: Iterable[object] | None = None,
) -> Result:
    """Insert an operator that sets a share of the results of layers to zero.

    Args:
        mg: a graph with common metadata and without formats.
        sparsity: in [0, 1).
        criterion: `l1` or `random`.
        scope: of thresholds: `local`, one a layer, or `global`, one for all.
        seed: of chance.
        nodes: whose results, all that a layer with weights reads when not given.
        data: batches from which thresholds come, the example inputs when not given.

    Returns:
        A new graph, and `{"inserted": names}`. Nothing is inserted where the zeros that a layer
        gives by itself are as many already.

    Raises:
        ConfigError: for an argument that is not legal, or a name that matches no node.
        DataError: when the data is empty.
    """
    share = check_pruning(criterion, scope, sparsity)
    mg = mg.copy()
    chosen = _selected(mg, nodes)
    if criterion == "random":
        generator = torch.Generator().manual_seed(seed)
        inserted = [_insert_mask(mg, node, share, generator) for node in chosen]
    elif scope == "global":
        sizes = [_sizes(mg, node, data) for node in chosen]
        threshold = _quantile(torch.cat(sizes), share)
        inserted = [_insert(mg, node, SHRINK, threshold) for node in chosen if threshold > 0]
    else:
        inserted = []
        # One after the other: what a layer gives depends on the zeros before it.
        for node in chosen:
            threshold = _quantile(_sizes(mg, node, data), share)
            if threshold > 0:
                inserted.append(_insert(mg, node, SHRINK, threshold))
                mg.recompile()
    mg.recompile()
    mg, _ = add_common_metadata_analysis_pass(mg, {})
    return mg, {"inserted": [node.name for node in inserted]}


def _selected(mg: MaseGraph, names: Sequence[str] | None) -> list[Node]:
    known = {node.name: node for node in mg.nodes if node.op == "call_function"}
    if names is None:
        readers = [known[name] for name in prunable_weights(mg)]
        read = {producer for node in readers for _, producer in stream_operands(node)}
        chosen = [node for node in known.values() if node in read]
        if not chosen:
            raise ConfigError(f"pruning: {mg.name} has no layer behind a layer; give nodes")
        return chosen
    for name in names:
        if name not in known:
            raise ConfigError(f"pruning: no node is called {name!r}; {nearest(name, known)}")
    return [known[name] for name in names]


def _sizes(mg: MaseGraph, node: Node, data: Iterable[object] | None) -> Tensor:
    seen = observe(mg, [mg.example_inputs] if data is None else data)
    return seen[node.name][RESULT].values.abs()


def _quantile(sizes: Tensor, sparsity: float) -> float:
    """Return the largest of the share `sparsity` of the smallest sizes; 0 for none."""
    count = round(sparsity * sizes.numel())
    return float(sizes.sort().values[count - 1]) if count else 0.0


def _insert_mask(mg: MaseGraph, node: Node, sparsity: float, generator: torch.Generator) -> Node:
    spec = common(node).results[RESULT]
    mask = best(torch.rand(spec.shape, generator=generator), sparsity)
    target = f"kept.{node.name}"
    set_tensor(mg.model, target, mask)
    with mg.fx_graph.inserting_after(node):
        constant = mg.fx_graph.get_attr(target)
    known = metadata(node)
    constant.meta["mase"] = MaseMetadata(known.module_path, known.source)
    return _insert(mg, node, MASK, constant)


def _insert(mg: MaseGraph, node: Node, role: str, argument: Node | float) -> Node:
    """Put the operator of `role` between a node and all that uses it."""
    users = list(node.users)
    operator = operator_for_role(role)
    target = decode_target("call_function", operator.targets[0])
    name = unique_name(f"{node.name}_{role}", [item.name for item in mg.nodes])
    with mg.fx_graph.inserting_after(argument if isinstance(argument, Node) else node):
        new = mg.fx_graph.create_node("call_function", target, (node, argument), {}, name=name)
    known = metadata(node)
    new.meta["mase"] = MaseMetadata(known.module_path, known.source)
    for user in users:
        user.replace_input_with(node, new)
    return new
