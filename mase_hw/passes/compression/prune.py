"""`prune_transform_pass`: set weights to zero, and keep them zero while the graph is trained.

The weights `w` of the smallest scores go. Of a gradient `g` of the loss, and inputs `x` on data:

| criterion | score | source |
|---|---|---|
| `l1`, `l2` | abs(w), w^2: the same order of single weights | Han et al. 2015, arXiv:1506.02626 |
| `random` | chance | |
| `snip` | abs(g w), g of all data | Lee et al. 2019, arXiv:1810.02340 |
| `taylor` | mean of (g w)^2 over batches | Molchanov et al. 2019, arXiv:1906.10771 |
| `movement` | -sum of g w while a copy is trained | Sanh et al. 2020, arXiv:2005.07683 |
| `wanda` | abs(w) times the norm of its input | Sun et al. 2023, arXiv:2306.11695 |

Scope: each tensor by itself (`local`; `wanda`: each result) or all selected tensors together
(`global`). `n` out of `m` keeps the `n` best of every `m` consecutive elements of the last
dimension (Mishra et al. 2021, arXiv:2104.08378).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from mase_hw._kinds import Record, Table
from mase_hw.errors import ConfigError, DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.masks import hold_masks
from mase_hw.graph.metadata import update
from mase_hw.graph.shapes import run_with
from mase_hw.graph.streams import stream_operands
from mase_hw.passes._pass import Result, graph_pass, worded_pass
from mase_hw.passes.canonical.decompose import with_layers
from mase_hw.passes.canonical.software_metadata import batch_inputs
from mase_hw.passes.compression._pruning import best, check_pruning, own_words, prunable_weights
from mase_hw.passes.compression.prune_activations import prune_activations_transform_pass
from mase_hw.registry import nearest

ARGUMENTS = ("sparsity", "criterion", "scope", "n", "m", "seed", "nodes")
CRITERIA = ("l1", "l2", "random", "snip", "taylor", "movement", "wanda")
# Steps of the copy whose weights move.
MOVING_RATE = 1e-2
# From a graph and a batch of data to a scalar.
Loss = Callable[[MaseGraph, Any], Tensor]


def _words_of_tables(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return arguments in which a table of weights is taken apart and one of activations stays."""
    rest = {key: value for key, value in given.items() if key not in ("weight", "activation")}
    weight, activation = given.get("weight", {}), given.get("activation")
    if not isinstance(weight, Mapping) or not isinstance(activation, Mapping | None):
        raise ConfigError(f"pruning: weight and activation are tables; got {given!r}")
    return {
        **own_words({**rest, **weight}),
        **({} if activation is None else {"activation": activation}),
    }


@worded_pass(_words_of_tables)
def prune_transform_pass(
    mg: MaseGraph,
    *,
    sparsity: float | None = None,
    criterion: str = "l1",
    scope: str = "local",
    n: int | None = None,
    m: int | None = None,
    seed: int = 0,
    nodes: Sequence[str] | None = None,
    data: Iterable[object] | None = None,
    loss: Loss | None = None,
    activation: Table | None = None,
) -> Result:
    """Set a share of the weights to zero.

    Args:
        mg: the graph.
        sparsity: in [0, 1), unless `n` and `m` are given.
        criterion: see the table of this module; `method` (`l1-norm`) is another word for it.
        scope: `local` or `global`.
        n: how many of every `m` stay.
        m: see `n`.
        seed: of chance.
        nodes: names to prune, every node with a weight of two dimensions or more when not given.
        data: batches for `snip`, `taylor`, `movement` and `wanda`, the example inputs when not
            given; with `loss` anything that it takes.
        loss: takes the graph and a batch; the sum of squares of the results when not given.
        activation: arguments of `prune_activations_transform_pass`, which then runs on the result.

    Returns:
        A new graph, and `report_sparsity_analysis_pass`'s report.

    Raises:
        ConfigError: for an argument that is not legal, or a name that matches no node.
    """
    count = _count(n, m, sparsity, scope)
    share = check_pruning(criterion, scope, sparsity if count is None else 0.0, CRITERIA)
    mg = with_layers(mg).copy()
    weights = _selected(mg, nodes)
    batches = [mg.example_inputs] if data is None else list(data)
    if not batches:
        raise DataError("the data is empty; give at least one batch with one sample")
    scores = _scores(mg, weights, criterion, seed, batches, loss)
    # What is pruned already stays so, and counts; a score may be negative.
    scores = {
        name: score.where(weights[name][1] != 0, -torch.inf) for name, score in scores.items()
    }
    if count is not None:
        masks = {name: _n_of_m(score, *count) for name, score in scores.items()}
    elif scope == "global":
        joined = best(torch.cat([score.flatten() for score in scores.values()]), share)
        parts = torch.split(joined, [score.numel() for score in scores.values()])
        masks = {
            name: part.reshape(score.shape)
            for (name, score), part in zip(scores.items(), parts, strict=True)
        }
    elif criterion == "wanda":
        masks = {
            name: torch.stack([best(row, share) for row in score]) for name, score in scores.items()
        }
    else:
        masks = {name: best(score, share) for name, score in scores.items()}
    with torch.no_grad():
        for name, (node, value) in weights.items():
            value.mul_(masks[name])
            update(node, pruned=True)
    hold_masks(mg)
    mg, info = report_sparsity_analysis_pass(mg)
    if activation is not None:
        mg, inserted = prune_activations_transform_pass(mg, activation)
        info |= inserted
    return mg, info


Weights = Mapping[str, tuple[Node, nn.Parameter]]


def _scores(
    mg: MaseGraph,
    weights: Weights,
    criterion: str,
    seed: int,
    data: Sequence[object],
    loss: Loss | None,
) -> dict[str, Tensor]:
    """Return the score of every weight by the name of its node."""
    values = {name: value.detach() for name, (_, value) in weights.items()}
    if criterion == "random":
        generator = torch.Generator().manual_seed(seed)
        return {name: torch.rand(item.shape, generator=generator) for name, item in values.items()}
    if criterion in ("l1", "l2"):
        return {name: item.abs() for name, item in values.items()}
    if criterion == "wanda":
        norms = _input_norms(mg, values, data)
        return {name: item.abs() * norms[name] for name, item in values.items()}
    return _learned_scores(mg, weights, criterion, data, loss or _energy)


def _energy(mg: MaseGraph, batch: object) -> Tensor:
    results = tree_leaves(mg(*batch_inputs(mg, batch)))
    return torch.stack([item.square().sum() for item in results if item.is_floating_point()]).sum()


def _learned_scores(
    mg: MaseGraph, weights: Weights, criterion: str, data: Iterable[object], loss: Loss
) -> dict[str, Tensor]:
    """Return the scores that follow from gradients of a copy of the graph."""
    mg = mg.copy().eval()
    own = {name: mg.constant(mg.node(node.name)) for name, (node, _) in weights.items()}
    totals = {name: torch.zeros_like(item) for name, item in own.items()}
    for item in own.values():
        item.requires_grad_(True)
    for batch in data:
        gradients = torch.autograd.grad(loss(mg, batch), [*own.values()], allow_unused=True)
        with torch.no_grad():
            for (name, weight), found in zip(own.items(), gradients, strict=True):
                gradient = torch.zeros_like(weight) if found is None else found
                if criterion == "snip":
                    totals[name] += gradient
                elif criterion == "taylor":
                    totals[name] += (gradient * weight).square()
                else:
                    totals[name] -= gradient * weight
                    weight -= MOVING_RATE * gradient
    if criterion == "snip":
        return {name: (totals[name] * own[name]).detach().abs() for name in own}
    return totals


def _input_norms(
    mg: MaseGraph, values: Mapping[str, Tensor], data: Iterable[object]
) -> dict[str, Tensor]:
    """Return the norm over data of the input that each weight multiplies, by channel."""
    squares: dict[str, Tensor] = {}
    sources = {name: stream_operands(mg.node(name))[0][1] for name in values}
    seen: dict[Node, Tensor] = {}

    def keep(node: Node, value: object) -> None:
        if isinstance(value, Tensor) and node in sources.values():
            seen[node] = value

    states: dict[str, Tensor] = {}
    for batch in data:
        run_with(mg, batch_inputs(mg, batch), keep, states)
        for name, weight in values.items():
            given = seen[sources[name]].double()
            kernel = weight.dim() - 2
            channels = given.movedim(-1 - kernel, 0).flatten(1).square().sum(1)
            squares[name] = squares.get(name, 0) + channels
    found = {}
    for name, weight in values.items():
        groups = len(squares[name]) // weight.shape[1]
        norms = squares[name].sqrt().reshape(groups, weight.shape[1])
        norms = norms.repeat_interleave(len(weight) // groups, 0)
        found[name] = norms.reshape(*norms.shape, *[1] * (weight.dim() - 2)).to(weight.dtype)
    return found


def _count(n: object, m: object, sparsity: float | None, scope: str) -> tuple[int, int] | None:
    """Return how many of how many stay; None where a share of all leaves."""
    if n is None and m is None:
        return None
    if not isinstance(n, int) or not isinstance(m, int) or not 1 <= n <= m:
        raise ConfigError(f"pruning: n of m is {n!r} of {m!r}; allowed: 1 <= n <= m")
    if sparsity is not None or scope == "global":
        raise ConfigError("pruning: n of m is local and sets the sparsity; give it alone")
    return n, m


@graph_pass
def report_sparsity_analysis_pass(mg: MaseGraph, *, data: Iterable[object] | None = None) -> Result:
    """Count the zeros of weights, and on request those of activations.

    Args:
        mg: the graph.
        data: batches as `add_software_metadata_analysis_pass` takes them, on which the zeros of
            results are counted: rectifiers make many without any pruning.

    Returns:
        The graph, and `{"sparsity": share over all weights, "nodes": {name: share}}`, with data
        also `"activations"`, the share of zeros in the result of every node.
    """
    weights = {name: value for name, (_, value) in prunable_weights(mg).items()}
    zeros = sum(int((value == 0).sum()) for value in weights.values())
    elements = sum(value.numel() for value in weights.values())
    shares = {name: float((value == 0).double().mean()) for name, value in weights.items()}
    info: Record = {"sparsity": zeros / elements if elements else 0.0, "nodes": shares}
    if data is not None:
        info["activations"] = _activations(mg, data)
    return mg, info


def _activations(mg: MaseGraph, data: Iterable[object]) -> dict[str, float]:
    """Return the share of zeros in the result of every node on batches of data."""
    counts: dict[str, list[int]] = {}

    def count(node: Node, value: object) -> None:
        if node.op in ("placeholder", "call_function") and isinstance(value, Tensor):
            found = counts.setdefault(node.name, [0, 0])
            found[0] += int((value == 0).sum())
            found[1] += value.numel()

    states: dict[str, Tensor] = {}
    for batch in data:
        run_with(mg, batch_inputs(mg, batch), count, states)
    if not any(elements for _, elements in counts.values()):
        raise DataError("the data is empty; give at least one batch with one sample")
    return {name: zeros / elements for name, (zeros, elements) in counts.items() if elements}


def _selected(mg: MaseGraph, names: Sequence[str] | None) -> dict[str, tuple[Node, nn.Parameter]]:
    weights = prunable_weights(mg)
    for name in names or ():
        if name not in weights:
            raise ConfigError(f"pruning: no node {name!r} has a weight; {nearest(name, weights)}")
    chosen = {name: item for name, item in weights.items() if names is None or name in names}
    if not chosen:
        raise ConfigError(f"pruning: {mg.name} has no weights to prune")
    return chosen


def _n_of_m(scores: Tensor, n: int, m: int) -> Tensor:
    """Return 1 for the `n` best of every `m` along the last dimension; a shorter tail keeps n."""
    tail = -scores.shape[-1] % m
    padded = nn.functional.pad(scores, (0, tail), value=-torch.inf)
    groups = padded.reshape(*scores.shape[:-1], -1, m)
    kept = groups.argsort(dim=-1, descending=True, stable=True)[..., :n]
    mask = torch.zeros_like(groups).scatter_(-1, kept, 1.0)
    return mask.reshape(padded.shape)[..., : scores.shape[-1]]
