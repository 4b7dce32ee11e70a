"""Which outputs of a graph count for a goal, and how much of them is kept."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.errors import ConfigError, DataError
from mase_hw.graph.agreement import Judgement
from mase_hw.graph.judgements import judgements
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.shapes import run_with
from mase_hw.precision.evaluation import Goal, Result
from mase_hw.precision.noise import DRAWS, Measure, Target, by_confidence
from mase_hw.precision.samples import Samples
from mase_hw.precision.space import is_real_result

# Of the largest value: less varies by rounding alone. And the least power.
UNVARYING, TINY = 2.0**-20, 1e-30


def check_goal(mg: MaseGraph, goal: Goal, labels: Tensor | None) -> None:
    """Refuse a goal that outputs or samples have no figure of.

    Raises:
        DataError: where it asks for labels that are not there.
        ConfigError: where it asks for decibels of what is no real number.
    """
    outputs, real = _computed(mg)
    if goal.max_drop is not None and labels is None and len(real) == len(outputs):
        raise DataError(
            "max_drop counts points of accuracy, which needs labels; give data with the class of "
            "every example, or min_sqnr, which needs none"
        )
    if goal.min_sqnr is not None and not real:
        raise ConfigError(
            f"the outputs of {mg.name} are indices or truths, of which there are no decibels; "
            "give max_drop, the percentage of elements that may differ from the float model's"
        )


def measure_of(mg: MaseGraph, goal: Goal, samples: Samples) -> Measure:
    """Return the outputs whose noise counts for a goal."""
    outputs, real = _computed(mg)
    if goal.max_drop is not None and len(real) == 1 == len(outputs):
        return Measure([Target(real[0], torch.ones(()))], by_confidence)
    nodes = real if goal.max_drop is None and real else _behind(outputs)
    values: dict[Node, list[Tensor]] = defaultdict(list)

    def visit(node: Node, value: object) -> None:
        if node in nodes and isinstance(value, Tensor):
            values[node].append(value)

    states: dict[str, Tensor] = {}
    for inputs in samples.spread(mg):
        run_with(mg, mg.batch_dims.inside(inputs), visit, states)
    by_name = judgements(mg)
    how = {node: by_name[name] for name, node in zip(mg.output_names, mg.outputs, strict=True)}
    whole = Judgement(None)
    return Measure(
        [
            target
            for node in nodes
            for target in _targets(node, torch.cat(values[node]), how.get(node, whole))
        ]
    )


def _targets(node: Node, values: Tensor, judgement: Judgement) -> Iterator[Target]:
    """Yield the channels of an output, where they are few, or all of them as one.

    Errors of a channel count by what varies in it; where nothing does, by its value, or by what
    varies in the others where that is more.
    """
    axis = judgement.axis
    rows = values.double().reshape(-1, 1)
    if axis is not None:
        rows = values.double().movedim(axis, -1).reshape(-1, values.shape[axis])
    rows = rows.nan_to_num(0.0, 0.0, 0.0)
    power = rows.var(0, correction=0)
    varies = power > (UNVARYING * rows.abs().amax(0)).square()
    if judgement.one_scale and bool(varies.any()):
        power = power.mean().expand_as(power)
    elif not bool(varies.all()):
        others = power[varies].mean() if bool(varies.any()) else power.new_zeros(())
        power = torch.where(varies, power, rows.square().mean(0).maximum(others))
    weight = power.clamp(min=TINY).rsqrt().to(values.dtype)
    sizes = [1] * values.dim()
    if axis is not None:
        sizes[axis] = len(weight)
    if judgement.one_scale or len(weight) > DRAWS:
        yield Target(node, weight.reshape(sizes))
        return
    for channel in torch.eye(len(weight), dtype=weight.dtype):
        yield Target(node, (channel * weight).reshape(sizes), max(DRAWS // len(weight), 1))


def measured_noise_of(mg: MaseGraph, target: Target, result: Result) -> float:
    """Return the noise that a result surely has no more of, over what varies, of a target."""
    named = zip(mg.output_names, mg.outputs, strict=True)
    name = next((name for name, node in named if node is target.node), None)
    if name is None or name not in result.noise:
        return 0.0
    sure: float = 10.0 ** (-result.assured(name) / 10.0)
    count, noise = result.noise[name]
    channels = target.weight.flatten()
    used = channels > 0
    if len(used) != len(noise) or bool(used.all()):
        return sure
    ratio = result.outputs[name].sqnr_db
    margin = sure * 10.0 ** (ratio / 10.0) if ratio is not None and math.isfinite(ratio) else 1.0
    weighed = (channels.double().square() * noise)[used].sum() / count[used].sum()
    return margin * float(weighed)


def _computed(mg: MaseGraph) -> tuple[list[Node], list[Node]]:
    outputs = list(dict.fromkeys(node for node in mg.outputs if node.op == "call_function"))
    return outputs, [node for node in outputs if is_real_result(node)]


def _behind(outputs: Sequence[Node]) -> list[Node]:
    """Return the nearest real results from which outputs are computed."""
    results: dict[Node, None] = {}
    waiting = list(outputs)
    while waiting:
        node = waiting.pop()
        if node.op == "call_function":
            if is_real_result(node):
                results[node] = None
            else:
                waiting += node.all_input_nodes
    return list(results)
