"""`prune_structure_transform_pass`: take channels, filters and heads out of a graph.

The modules shrink: weights lose rows, what follows loses columns, and everything between follows.
A channel's score is the mean magnitude of the weights that make it (Li et al. 2017,
arXiv:1608.08710), or chance. What leaves together, see `_channels`, is scored together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node

from mase_hw._kinds import Record
from mase_hw.errors import ConfigError, MaseError
from mase_hw.graph.exported import outputs_agree
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import aten_arguments, metadata, update
from mase_hw.graph.rebuild import set_tensor
from mase_hw.passes._pass import Result, worded_pass
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.canonical.decompose import decompose_transform_pass, with_layers
from mase_hw.passes.canonical.raise_patterns import raise_patterns_transform_pass
from mase_hw.passes.compression._channels import GROUPS, Channels, cut_dim, find_channels
from mase_hw.passes.compression.prune import check_pruning, own_words
from mase_hw.registry import nearest

# Arguments of a node that repeat the sizes of its result, or count groups of channels.
SIZES = ("size", "shape", "normalized_shape")
# What an error names at most.
NAMED = 3


@worded_pass(own_words)
def prune_structure_transform_pass(
    mg: MaseGraph,
    *,
    sparsity: float | None = None,
    criterion: str = "l1",
    scope: str = "local",
    seed: int = 0,
    nodes: Sequence[str] | None = None,
) -> Result:
    """Remove a share of the channels of every layer whose channels may leave.

    Args:
        mg: a graph without number formats.
        sparsity: in [0, 1), the share of channels; one channel of every layer stays.
        criterion: `l1` or `random`.
        scope: `local`, the share of every layer, or `global`, of all together, scores in units of
            their layer's mean.
        seed: of chance.
        nodes: names of layers whose channels may leave, all when not given.

    Returns:
        A new graph, and `channels`, (before, after) of every layer, and `parameters` likewise.

    Raises:
        ConfigError: for an argument that is not legal, or a layer whose channels must stay.
        MaseError: when the smaller graph does not compute what the old one does without the
            removed channels.
    """
    share = check_pruning(criterion, scope, sparsity)
    if mg.is_quantized:
        raise ConfigError("pruning: channels leave before formats come; prune, then quantize")
    mg = _spelled_out(mg)
    channels = find_channels(mg)
    groups = _selected(mg, channels, nodes)
    if criterion == "random":
        generator = torch.Generator().manual_seed(seed)
        chances = torch.rand(len(groups), generator=generator).tolist()
        scores = dict(zip(groups, chances, strict=True))
    else:
        scores = _scores(mg, channels, groups, scope)
    removed = _chosen(channels, groups, scores, share, scope)
    expected = _without(mg, channels, removed)
    before = _sizes(mg, channels, groups, set())
    info: Record = {
        "channels": {
            name: [count, after]
            for (name, count), after in zip(
                before.items(), _sizes(mg, channels, groups, removed).values(), strict=True
            )
        },
        "parameters": [_elements(mg), 0],
    }
    _shrink(mg, channels, removed)
    if not _computes(mg, expected):
        raise MaseError(
            f"{mg.name} without the removed channels computes other values: one of its operators "
            "hides what it depends on; name the layers to prune with `nodes`"
        )
    mg, _ = add_common_metadata_analysis_pass(mg)
    info["parameters"][1] = _elements(mg)
    return mg, info


def _spelled_out(mg: MaseGraph) -> MaseGraph:
    """Return a graph with norms and layers as such, and one result for each node."""
    mg = with_layers(raise_patterns_transform_pass(mg)[0])
    mg, _ = add_common_metadata_analysis_pass(mg)
    return decompose_transform_pass(mg)[0]


def _computes(mg: MaseGraph, expected: object) -> bool:
    """True if a graph runs, and gives these outputs up to rounding."""
    try:
        with torch.no_grad():
            return outputs_agree(mg(*mg.batch_dims.outside(mg.one_inference())), expected)
    except (RuntimeError, ValueError):
        return False


def _selected(
    mg: MaseGraph, channels: Channels, names: Sequence[str] | None
) -> dict[int, list[int]]:
    """Return the groups that may leave: of the named layers, with what leaves with them."""
    groups, holders = channels.groups(), channels.holders()
    known = {channels.roots[channel][0].name for group in groups.values() for channel in group}
    for name in names or ():
        if name not in known:
            why = nearest(name, known)
            if name in holders:
                why = f"{_placed(holders[name])} needs all of them; {why}"
            raise ConfigError(f"pruning: the channels of {name!r} cannot leave; {why}")
    if names is not None:
        groups = {
            key: group
            for key, group in groups.items()
            if any(channels.roots[channel][0].name in names for channel in group)
        }
    if not groups:
        needed: dict[Node, str] = {}
        for name, held in holders.items():
            needed.setdefault(held, name)
        told = [f"{_placed(held)} needs those of {name}" for held, name in needed.items()]
        why = "; ".join(told[:NAMED]) or "no layer has constant weights"
        raise ConfigError(f"pruning: {mg.name} has no channels that can leave: {why}")
    return groups


def _placed(node: Node) -> str:
    """Return a node's name and the user's line that it comes from."""
    return node.name if node.op == "output" else f"{node.name} (at {metadata(node).source})"


def _scores(
    mg: MaseGraph, channels: Channels, groups: Mapping[int, list[int]], scope: str
) -> dict[int, float]:
    """Return the mean magnitude of the weights that make the channels of each group."""
    means: dict[int, list[float]] = defaultdict(list)
    for item in channels.slices:
        if item.begins:
            weight = mg.constant(item.constant).detach().abs().double().movedim(item.axis, 0)
            made = item.channels >= 0
            found = weight.flatten(1).mean(dim=1)[made]
            if scope == "global":
                found = found / found.mean().clamp(min=1e-30)
            for channel, mean in zip(item.channels[made].tolist(), found.tolist(), strict=True):
                means[channels.find(channel)].append(mean)
    return {key: sum(means[key]) / len(means[key]) for key in groups}


def _chosen(
    channels: Channels,
    groups: Mapping[int, list[int]],
    scores: Mapping[int, float],
    sparsity: float,
    scope: str,
) -> set[int]:
    """Return the channels that leave; every layer keeps one."""
    families: dict[frozenset[Node] | None, list[int]] = defaultdict(list)
    for key, group in groups.items():
        layers = frozenset(channels.roots[channel][0] for channel in group)
        families[None if scope == "global" else layers].append(key)
    holding: dict[int, list[int]] = defaultdict(list)
    for number, part in enumerate(channels.parts):
        for channel in part:
            holding[channels.find(channel)].append(number)
    remaining = [len({channels.find(item) for item in part}) for part in channels.parts]
    removed: set[int] = set()
    for keys in families.values():
        count = round(sparsity * len(keys))
        for key in sorted(keys, key=lambda item: (scores[item], item)):
            parts = set(holding[key])
            if count and all(remaining[number] > 1 for number in parts):
                for number in parts:
                    remaining[number] -= 1
                removed |= set(groups[key])
                count -= 1
    return removed


def _sizes(
    mg: MaseGraph, channels: Channels, groups: Mapping[int, list[int]], removed: set[int]
) -> dict[str, int]:
    """Return how many channels every layer has whose channels may leave."""
    prunable = {channels.roots[channel][0] for group in groups.values() for channel in group}
    found = {node.name: 0 for node in mg.nodes if node in prunable}
    for channel, (root, _) in enumerate(channels.roots):
        if root in prunable and channel not in removed:
            found[root.name] += 1
    blocks = {root.name: size for root, size in channels.blocks.items()}
    return {name: count // blocks.get(name, 1) for name, count in found.items()}


def _elements(mg: MaseGraph) -> int:
    return sum(item.numel() for item in mg.model.parameters())


def _gone(labels: Tensor, removed: set[int]) -> Tensor:
    return torch.isin(labels, torch.tensor(sorted(removed), dtype=torch.int64))


def _without(mg: MaseGraph, channels: Channels, removed: set[int]) -> object:
    """Return the graph's outputs with the removed channels cut off from what they feed."""
    cut = mg.copy()
    nodes = {node.name: node for node in cut.nodes}
    with torch.no_grad():
        for item in channels.slices:
            if item.ends:
                constant = cut.constant(nodes[item.constant.name])
                constant.movedim(item.axis, 0)[_gone(item.channels, removed)] = 0.0
        for norm in channels.norms:
            _normalize_kept(cut, nodes[norm.name], _gone(channels.labels[norm], removed))
        cut.recompile()
        return cut(*cut.batch_dims.outside(cut.one_inference()))


def _normalize_kept(cut: MaseGraph, norm: Node, gone: Tensor) -> None:
    """Take a norm over what is kept of its rows, with zeros in the place of the rest."""
    sizes = _kept_sizes(gone)
    axes = [axis for axis, size in enumerate(gone.shape) if sizes[axis] != size]
    if not axes:
        return
    (axis,) = axes
    kept = _kept(gone, axis).nonzero().flatten()
    behind = axis - gone.dim()
    set_tensor(cut.model, f"kept.{norm.name}", kept)
    operand = norm.all_input_nodes[0]
    with cut.fx_graph.inserting_before(norm):
        index = cut.fx_graph.get_attr(f"kept.{norm.name}")
        for item in norm.all_input_nodes:
            value = cut.fx_graph.call_function(torch.index_select, (item, behind, index))
            norm.replace_input_with(item, value)
    _set_sizes(norm, list(gone.shape), sizes)
    with cut.fx_graph.inserting_after(norm):
        zeros = cut.fx_graph.call_function(torch.zeros_like, (operand,))
    with cut.fx_graph.inserting_after(zeros):
        whole = cut.fx_graph.call_function(torch.index_copy, (zeros, behind, index, norm))
    norm.replace_all_uses_with(whole, delete_user_cb=lambda user: user is not whole)


def _kept(gone: Tensor, axis: int) -> Tensor:
    return (~gone).movedim(axis, 0).reshape(gone.shape[axis], -1).any(dim=1)


def _kept_sizes(gone: Tensor) -> list[int]:
    return [int(_kept(gone, axis).sum()) for axis in range(gone.dim())]


def _shrink(mg: MaseGraph, channels: Channels, removed: set[int]) -> None:
    scales = _set_constants(mg, channels, removed)
    gone = {node: _gone(labels, removed) for node, labels in channels.labels.items()}
    for node, lost in gone.items():
        _set_sizes(node, list(lost.shape), _kept_sizes(lost))
        groups = aten_arguments(node).get(GROUPS, 1)
        if groups != 1 and node in scales:
            _set_argument(node, GROUPS, round(groups * scales[node]))
        if cut_dim(node) is not None and node.all_input_nodes[0] in gone:
            _set_bounds(node, gone[node.all_input_nodes[0]])
        update(node, software=None)
    mg.recompile()


def _set_constants(mg: MaseGraph, channels: Channels, removed: set[int]) -> dict[Node, float]:
    """Shrink the constants; return the share of a constant's first axis that its reader keeps."""
    scales: dict[Node, float] = {}
    done: set[tuple[str, int]] = set()
    for item in channels.slices:
        (kept,) = torch.nonzero(~_gone(item.channels, removed), as_tuple=True)
        if len(kept) == len(item.channels):
            continue
        old, name = mg.constant(item.constant), str(item.constant.target)
        if item.axis == 0 and old.dim() >= 2 and not item.begins:
            scales[item.reader] = len(kept) / len(item.channels)
        if (name, item.axis) in done:
            continue
        done.add((name, item.axis))
        value = old.detach().index_select(item.axis, kept).clone()
        new = nn.Parameter(value, requires_grad=old.requires_grad)
        set_tensor(mg.model, name, new if isinstance(old, nn.Parameter) else value)
    return scales


def _set_sizes(node: Node, old: list[int], new: list[int]) -> None:
    """Put new sizes in the place of those of the result that an argument repeats."""
    if old == new:
        return
    for name, value in aten_arguments(node).items():
        if name in SIZES and isinstance(value, list | tuple) and len(value) <= len(old):
            pairs = zip(value, old[-len(value) :], new[-len(value) :], strict=True)
            _set_argument(node, name, [b if size == a else size for size, a, b in pairs])


def _set_bounds(node: Node, gone: Tensor) -> None:
    """Move the bounds of what a node takes of an operand to where they lie in what is left."""
    given, axis = aten_arguments(node), cut_dim(node)
    assert axis is not None
    kept = _kept(gone, axis)
    for name, bound in zip(
        ("start", "end"), slice(given["start"], given["end"]).indices(len(kept)), strict=False
    ):
        if not kept.all():
            _set_argument(node, name, int(kept[:bound].sum()))


def _set_argument(node: Node, name: str, value: Any) -> None:
    target: Any = node.target
    position = [item.name for item in target._schema.arguments].index(name)
    if position < len(node.args):
        node.update_arg(position, value)
    else:
        node.update_kwarg(name, value)
