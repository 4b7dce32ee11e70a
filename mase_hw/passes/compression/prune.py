"""`prune_transform_pass`: set weights to zero, and keep them zero while the graph is trained.

Criteria: the magnitude (`l1`; Han et al. 2015, arXiv:1506.02626) or its square (`l2`, of single
weights the same order), chance (`random`), or importance on data, see
`mase_hw.passes.compression._importance`. Scope: each tensor by itself (`local`) or all selected
tensors together (`global`). `n` out of `m` keeps the `n` best of every `m` consecutive elements of
the last dimension (Mishra et al. 2021, arXiv:2104.08378).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.fx import Node

from mase_hw._checks import check_share
from mase_hw._kinds import Record
from mase_hw.errors import ConfigError, DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.masks import hold_masks
from mase_hw.graph.nodes import tensor_arguments, update
from mase_hw.graph.shapes import run_with
from mase_hw.ops import Weighted, operator_for
from mase_hw.passes._pass import Result, graph_pass, worded_pass
from mase_hw.passes.canonical.decompose import with_layers
from mase_hw.passes.canonical.software_metadata import batch_inputs
from mase_hw.passes.compression._importance import BY_GRADIENT, BY_INPUT, Loss, importance
from mase_hw.registry import nearest

ARGUMENTS = ("sparsity", "criterion", "scope", "n", "m", "seed", "nodes")
CRITERIA = ("l1", "random")
OF_WEIGHTS = ("l1", "l2", "random", *BY_GRADIENT, BY_INPUT)
SCOPES = ("local", "global")
OPERAND = "weight"


def own_words(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return arguments with `criterion` for `method`, and `l1` for `l1-norm`.

    Raises:
        ConfigError: for tables of weights and activations, which are passes of their own.
    """
    for table, name in (
        ("weight", "prune_transform_pass"),
        ("activation", "prune_activations_transform_pass"),
    ):
        if isinstance(given.get(table), Mapping):
            raise ConfigError(f"pruning has no table {table!r}: give what it holds to {name}")
    found = {"criterion" if key == "method" else key: value for key, value in given.items()}
    criterion = found.get("criterion")
    if isinstance(criterion, str):
        found["criterion"] = criterion.removesuffix("-norm").removesuffix("_norm")
    return found


def check_pruning(
    criterion: str, scope: str, sparsity: object, criteria: Sequence[str] = CRITERIA
) -> float:
    """Return the sparsity.

    Raises:
        ConfigError: for a word that is none, or a sparsity out of range.
    """
    for key, word, legal in (("criterion", criterion, criteria), ("scope", scope, SCOPES)):
        if word not in legal:
            raise ConfigError(f"pruning: {key} is {word!r}; {nearest(str(word), legal)}")
    return check_share("pruning: sparsity", sparsity)


@worded_pass(own_words)
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
) -> Result:
    """Set a share of the weights to zero.

    Args:
        mg: the graph.
        sparsity: in [0, 1), unless `n` and `m` are given.
        criterion: `l1`, `l2`, `random`, or with data `wanda`, `snip`, `taylor`, `movement`;
            `method` (`l1-norm`) is another word for it.
        scope: `local` or `global`.
        n: how many of every `m` stay.
        m: see `n`.
        seed: of chance.
        nodes: names to prune, every node with a weight of two dimensions or more when not given.
        data: batches, pairs of inputs and labels; inputs alone do for `wanda`.
        loss: takes the graph and a batch; the cross-entropy of its first result when not given.

    Returns:
        A new graph, and `report_sparsity_analysis_pass`'s report.

    Raises:
        ConfigError: for an argument that is not legal, or a name that matches no node.
        DataError: for a criterion that needs data, without any.
    """
    count = _count(n, m, sparsity, scope)
    share = check_pruning(criterion, scope, sparsity if count is None else 0.0, OF_WEIGHTS)
    if criterion == BY_INPUT and scope == "global":
        raise ConfigError(f"pruning: {BY_INPUT} compares the weights of one result; scope: local")
    mg = with_layers(mg).copy()
    selected = _selected(mg, nodes)
    # Nodes may share a weight, as the steps of a loop do.
    shared = {id(item[1]): name for name, item in selected.items()}
    weights = {name: selected[name] for name in shared.values()}
    generator = torch.Generator().manual_seed(seed)
    if criterion == "random":
        scores = {n: torch.rand(v.shape, generator=generator) for n, (_, v) in weights.items()}
    elif criterion in ("l1", "l2"):
        scores = {name: value.detach().abs() for name, (_, value) in weights.items()}
    else:
        scores = importance(criterion, mg, selected, data, loss)
        scores = {name: scores[name] for name in weights}
    # What is pruned already stays so, and counts.
    scores = {name: score.where(weights[name][1] != 0, -math.inf) for name, score in scores.items()}
    if count is not None:
        masks = {name: _n_of_m(score, *count) for name, score in scores.items()}
    elif scope == "global":
        joined = best(torch.cat([score.flatten() for score in scores.values()]), share)
        parts = torch.split(joined, [score.numel() for score in scores.values()])
        masks = {
            name: part.reshape(score.shape)
            for (name, score), part in zip(scores.items(), parts, strict=True)
        }
    else:
        masks = {name: best(score, share) for name, score in scores.items()}
    with torch.no_grad():
        for name, (_, value) in weights.items():
            value.mul_(masks[name])
    for node, _ in selected.values():
        update(node, pruned=True)
    hold_masks(mg)
    report: Result = report_sparsity_analysis_pass(mg)
    return report


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


def prunable_weights(mg: MaseGraph) -> dict[str, tuple[Node, nn.Parameter]]:
    """Return every weight that is a parameter, and the node that reads it, by its user's name."""
    found = {}
    for node in mg.nodes:
        operator = operator_for(node.target) if node.op == "call_function" else None
        if operator is None or not Weighted.of(operator).prunable:
            continue
        for name, value in tensor_arguments(node):
            if name == OPERAND and isinstance(value, Node) and value.op == "get_attr":
                constant = mg.constant(value)
                if isinstance(constant, nn.Parameter) and constant.dim() >= 2:
                    found[node.name] = (value, constant)
    return found


def _selected(mg: MaseGraph, names: Sequence[str] | None) -> dict[str, tuple[Node, nn.Parameter]]:
    weights = prunable_weights(mg)
    for name in names or ():
        if name not in weights:
            raise ConfigError(f"pruning: no node {name!r} has a weight; {nearest(name, weights)}")
    chosen = {name: item for name, item in weights.items() if names is None or name in names}
    if not chosen:
        raise ConfigError(f"pruning: {mg.name} has no weights to prune")
    return chosen


def best(scores: Tensor, sparsity: float) -> Tensor:
    """Return 1 for all but the `sparsity` share of the smallest scores, 0 for those."""
    mask = torch.ones(scores.numel())
    count = round(sparsity * scores.numel())
    mask[torch.argsort(scores.flatten(), stable=True)[:count]] = 0.0
    return mask.reshape(scores.shape)


def _n_of_m(scores: Tensor, n: int, m: int) -> Tensor:
    """Return 1 for the `n` best of every `m` along the last dimension; a shorter tail keeps n."""
    tail = -scores.shape[-1] % m
    padded = nn.functional.pad(scores, (0, tail), value=-math.inf)
    groups = padded.reshape(*scores.shape[:-1], -1, m)
    kept = groups.argsort(dim=-1, descending=True, stable=True)[..., :n]
    mask = torch.zeros_like(groups).scatter_(-1, kept, 1.0)
    return mask.reshape(padded.shape)[..., : scores.shape[-1]]
