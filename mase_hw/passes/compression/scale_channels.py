"""Scaling of channels before quantisation: a factor of a weight, its inverse in the layer before.

`W x = (W diag(s)) (x / s)`: a channel of large inputs or important weights is scaled so that
rounding loses less of it, and `1 / s` is folded into what computes `x`. Two rules choose `s`, and
their exponent `a`, per group of layers that read one stream:

- with a number format of the weights, the least squared error of the results, from

      s = (mean |x|)^a / geometric mean

  (Lin et al., "AWQ: Activation-aware Weight Quantization", 2023, arXiv:2306.00978);
- with a given `strength`, `s = max|x|^a / max|w|^(1 - a)`, which moves the difficulty of
  activations into the weights (Xiao et al., "SmoothQuant", 2022, arXiv:2211.10438).

The function of the graph does not change: that folding holds is tried on the data, and a stream
whose producer cannot take the factor is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._checks import check_share
from mase_hw._kinds import Record
from mase_hw.errors import ConfigError
from mase_hw.formats import format_class
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.compression._rows import rows_of
from mase_hw.passes.compression.gptq import squared_error
from mase_hw.passes.compression.walk import Layer, Values, layers, walk

# Exponents that are tried.
STRENGTHS = tuple(step / 10 for step in range(11))
# How far back a factor is carried, and how long results are kept for it.
REACH = 8
KEEP = 40
# Relative difference of binary32 sums in another order.
TOLERANCE = 1e-3


@graph_pass
def scale_channels_transform_pass(
    mg: MaseGraph,
    *,
    data: Iterable[object] | None = None,
    weight: Mapping[str, object] | None = None,
    strength: float | None = None,
    nodes: Sequence[str] | None = None,
) -> Result:
    """Scale the input channels of layers, and fold the inverse into what computes their input.

    Args:
        mg: a canonical graph without number formats.
        data: batches of inputs, the example inputs when not given.
        weight: the format that weights are to have, `{"name": ..., field: value}`, or else
        strength: from 0 to 1.
        nodes: names of layers, all when not given.

    Returns:
        A new graph that computes the same function, `strengths`, the exponent by group of layers,
        `kept`, the groups that no exponent makes better, and `left`, those whose input has no place
        for the factor.

    Raises:
        ConfigError: for an argument that is not legal, or a graph with number formats.
        DataError: when there is no batch.
    """
    if (weight is None) == (strength is None):
        raise ConfigError("scaling: give either the weights' format, `weight`, or a `strength`")
    if strength is not None:
        check_share("scaling: strength", strength, below=False)
    if mg.is_quantized:
        raise ConfigError("scaling: the graph is quantized; scale, then quantize")
    mg = mg.copy().eval()
    groups: dict[Node, list[Layer]] = {}
    for layer in layers(mg, nodes).values():
        groups.setdefault(layer.source, []).append(layer)
    first = {group[0].node: group for group in groups.values()}
    report: Record = {"strengths": {}, "kept": [], "left": []}
    for node, values in walk(mg, [mg.example_inputs] if data is None else data, KEEP):
        group = first.pop(node, None)
        if group is None:
            if not first:
                break
            continue
        names = ", ".join(layer.node.name for layer in group)
        if not set(group[0].source.users) <= {layer.node for layer in group}:
            report["left"].append(names)
            continue
        exponent, scale = _choose(mg, group, values, weight, strength)
        if exponent == 0:
            report["strengths"][names] = 0.0
            report["kept"].append(names)
        elif _fold(mg, group[0].source, scale, values):
            for layer in group:
                parameter = mg.constant(layer.parameter)
                with torch.no_grad():
                    parameter.mul_(scale.to(parameter.dtype))
            report["strengths"][names] = exponent
        else:
            report["left"].append(names)
    return mg, report


def _choose(
    mg: MaseGraph,
    group: list[Layer],
    values: list[Values],
    entry: Mapping[str, object] | None,
    strength: float | None,
) -> tuple[float, Tensor]:
    """Return the exponent and the factor of every channel, float64."""
    read = rows_of(values, group[0].source)
    rows = read.now
    weights = [mg.constant(layer.parameter).detach() for layer in group]
    if entry is None:
        assert strength is not None
        inputs = torch.stack([item.abs().amax(0) for item in rows]).amax(0).double()
        outputs = torch.stack([item.abs().amax(0) for item in weights]).amax(0).double()
        return float(strength), _centered(
            inputs**strength / outputs.clamp(min=1e-12) ** (1 - strength)
        )
    total = sum(item.double().abs().sum(0) for item in rows)
    assert isinstance(total, Tensor)
    size = total / sum(len(item) for item in rows)
    hessian = read.gram()
    best = (float("inf"), 0.0, torch.ones_like(size))
    for strength in STRENGTHS:
        scale = _centered(size**strength)
        error = sum(_error(weight, scale, hessian, entry) for weight in weights)
        if error < best[0]:
            best = (error, strength, scale)
    return best[1], best[2]


def _centered(scale: Tensor) -> Tensor:
    """Return factors around one; a channel that is always zero stays as it is."""
    scale = torch.where(scale > 0, scale, 1.0).clamp(min=1e-6)
    return scale / scale.log().mean().exp()


def _error(weight: Tensor, scale: Tensor, hessian: Tensor, entry: Mapping[str, object]) -> float:
    """Return the squared error of the results with scaled weights that are rounded."""
    factor = scale.to(weight.dtype)
    fields = dict(entry)
    cls = format_class(str(fields.pop("name", "")))
    scaled = weight * factor
    rounded = cls.fit_values(scaled, **fields).round_values(scaled) / factor
    return squared_error(weight - rounded, hessian)


def _fold(mg: MaseGraph, source: Node, scale: Tensor, values: list[Values]) -> bool:
    """Divide a stream by `scale` in the constants that it is computed from; change its values."""
    run = GraphRun(mg)
    for chain in _chains(source, REACH):
        end = chain[-1]
        constants = [item for item in end.all_input_nodes if item.op == "get_attr"]
        chosen = [item for item in constants if _is_by_channel(mg.constant(item), len(scale))]
        if not chosen or any(len(item.users) != 1 for item in chosen):
            continue
        if any(item not in results for results in values for item in _inputs(chain)):
            continue
        kept = [mg.constant(item).detach().clone() for item in chosen]
        with torch.no_grad():
            for item in chosen:
                parameter = mg.constant(item)
                factor = scale.to(parameter.dtype).reshape(-1, *[1] * (parameter.dim() - 1))
                parameter.div_(factor)
        changed = [_recomputed(run, chain, results) for results in values]
        if all(
            _close(new[source], results[source] / scale.to(results[source].dtype))
            for new, results in zip(changed, values, strict=True)
        ):
            for results, new in zip(values, changed, strict=True):
                results.update(new)
            return True
        with torch.no_grad():
            for item, old in zip(chosen, kept, strict=True):
                mg.constant(item).copy_(old)
    return False


def _chains(source: Node, reach: int) -> Iterator[list[Node]]:
    """Yield ways back from a stream through nodes that nothing else reads."""
    waiting = [[source]]
    while waiting:
        chain = waiting.pop(0)
        if chain[-1].op != "call_function":
            continue
        yield chain
        if len(chain) < reach:
            waiting += [
                [*chain, item]
                for item in chain[-1].all_input_nodes
                if item.op == "call_function" and len(item.users) == 1
            ]


def _is_by_channel(value: Tensor, channels: int) -> bool:
    return value.is_floating_point() and value.dim() in (1, 2) and value.shape[0] == channels


def _inputs(chain: list[Node]) -> list[Node]:
    return [
        item
        for node in chain
        for item in node.all_input_nodes
        if item.op != "get_attr" and item not in chain
    ]


def _recomputed(run: GraphRun, chain: list[Node], results: Values) -> Values:
    with torch.no_grad():
        found = dict(results)
        for node in reversed(chain):
            found[node] = run.step(node, found)
    return {node: found[node] for node in chain}


def _close(found: Tensor, expected: Tensor) -> bool:
    size = float(expected.abs().max())
    return bool((found - expected).abs().max() <= TOLERANCE * max(size, 1e-30))
