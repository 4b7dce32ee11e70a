"""Importance of weights on data; the least important ones are pruned.

- `wanda` (Sun et al. 2023, arXiv:2306.11695): `|w|` times the norm of the input that it multiplies,
  compared among the weights of one result;
- `snip` (Lee et al. 2018, arXiv:1810.02340): `|w dL/dw|`, the loss `L` over all batches;
- `taylor` (Molchanov et al. 2019, arXiv:1906.10771): the mean of `(w dL/dw)^2` over batches;
- `movement` (Sanh et al. 2020, arXiv:2005.07683): the sum of `-w dL/dw` along steps of gradient
  descent, one a batch; the weights themselves stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from mase_hw.errors import ConfigError, DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.shapes import run_with
from mase_hw.ops import Weighted, operator_for
from mase_hw.passes.canonical.software_metadata import batch_inputs

BY_GRADIENT, BY_INPUT = ("snip", "taylor", "movement"), "wanda"
# Of gradient descent for `movement`.
RATE = 1e-2

Weights = Mapping[str, tuple[Node, nn.Parameter]]
Loss = Callable[[MaseGraph, Any], Tensor]


def importance(
    criterion: str,
    mg: MaseGraph,
    weights: Weights,
    data: Iterable[Any] | None,
    loss: Loss | None = None,
) -> dict[str, Tensor]:
    """Return the importance of each weight of a graph, by node, of the weight's shape.

    Nodes that share a weight have its importance to all of them.

    Args:
        criterion: one of `BY_GRADIENT`, or `BY_INPUT`.
        mg: the graph.
        weights: by node that uses them.
        data: batches, pairs of inputs and labels; inputs alone do for `BY_INPUT`.
        loss: takes the graph and a batch; the cross-entropy of its first result without.

    Raises:
        ConfigError: for a layer whose inputs no single weight multiplies.
        DataError: without a batch.
    """
    batches = list(data or ())
    if not batches:
        raise DataError(f"pruning: criterion {criterion} needs data; give batches with samples")
    if criterion == BY_INPUT:
        return _by_input(mg, weights, batches)
    parameters = list({id(value): value for _, value in weights.values()}.values())
    before = [(value.detach().clone(), value.requires_grad) for value in parameters]
    total = [torch.zeros_like(value) for value, _ in before]
    mg.eval()
    for value in parameters:
        value.requires_grad_(True)
    for batch in batches:
        cost = (loss or _cross_entropy)(mg, batch)
        slopes = torch.autograd.grad(cost, parameters, allow_unused=True)
        with torch.no_grad():
            for value, slope, term in zip(parameters, slopes, total, strict=True):
                if slope is not None:
                    product = value * slope
                    term.add_(product.square() if criterion == "taylor" else -product)
                    value.sub_(RATE * slope if criterion == "movement" else 0.0)
    for value, (old, trains) in zip(parameters, before, strict=True):
        value.requires_grad_(trains)
        value.detach().copy_(old)
    if criterion == "snip":
        total = [term.abs() for term in total]
    by_weight = dict(zip(map(id, parameters), total, strict=True))
    return {name: by_weight[id(value)] for name, (_, value) in weights.items()}


def _cross_entropy(mg: MaseGraph, batch: Any) -> Tensor:
    if not isinstance(batch, list | tuple) or len(batch) != 2:
        raise DataError("pruning: a batch to find gradients on is a pair of inputs and labels")
    inputs, labels = batch
    if isinstance(inputs, Mapping):
        results = mg(**inputs)
    else:
        results = mg(*inputs) if isinstance(inputs, list | tuple) else mg(inputs)
    return nn.functional.cross_entropy(tree_leaves(results)[0].flatten(0, -2), labels.flatten())


def _by_input(mg: MaseGraph, weights: Weights, batches: list[Any]) -> dict[str, Tensor]:
    sources: dict[Node, list[str]] = {}
    for node in mg.nodes:
        if node.name in weights:
            streams = [item for item in node.all_input_nodes if item.op != "get_attr"]
            sources.setdefault(streams[0], []).append(node.name)
    squares: dict[int, Tensor] = {}

    def visit(node: Node, value: object) -> None:
        for name in sources.get(node, ()):
            assert isinstance(value, Tensor)
            weight = weights[name][1]
            total = _squares(mg.node(name), value.detach().double(), weight)
            squares[id(weight)] = squares.get(id(weight), 0.0) + total

    for batch in batches:
        named = isinstance(batch, list | tuple) and isinstance(batch[0], Mapping)
        run_with(mg, batch_inputs(mg, batch[0] if named else batch), visit, {})
    return {
        name: _ranks(mg.node(name), value.detach().abs() * squares[id(value)].sqrt().to(value))
        for name, (_, value) in weights.items()
    }


def _ranks(node: Node, scores: Tensor) -> Tensor:
    """Return the place of each score among those of the same result, so that rows compare."""
    axis = _weighting(node).result_axis
    rows = scores.movedim(axis, 0)
    places = rows.flatten(1).argsort(dim=1, stable=True).argsort(dim=1).to(scores)
    return places.reshape(rows.shape).movedim(0, axis)


def _weighting(node: Node) -> Weighted:
    operator = operator_for(node.target)
    assert operator is not None
    return Weighted.of(operator)


def _squares(node: Node, value: Tensor, weight: Tensor) -> Tensor:
    """Return the squares of the inputs that each weight multiplies, to be broadcast to it.

    Raises:
        ConfigError: for a layer that is neither linear nor a convolution.
    """
    kernel = weight.dim() - 2
    features = value.movedim(-1 - kernel, 0).flatten(1).square().sum(1)
    axis = 1 - _weighting(node).result_axis
    if axis == 0 and len(features) == len(weight):
        return features.reshape(-1, *[1] * (kernel + 1))
    groups, rest = divmod(len(features), weight.shape[1])
    if axis != 1 or rest or not groups or len(weight) % groups:
        raise ConfigError(
            f"pruning: criterion {BY_INPUT} knows linear layers and convolutions, and {node.name} "
            "is neither; give its name with another criterion, or nodes without it"
        )
    rows = features.reshape(groups, -1).repeat_interleave(len(weight) // groups, 0)
    return rows.reshape(*rows.shape, *[1] * kernel)
