"""The outputs of a simulation beside the float model, on the same inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.emit.project import load_graph
from mase_hw.graph.agreement import RTL, ModelAgreement, Sums
from mase_hw.graph.fills import float_run
from mase_hw.graph.judgements import judgements
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.reference import spec
from mase_hw.passes.formats.agreement import CHUNK_EXAMPLES, MAX_EXAMPLES
from mase_hw.passes.formats.merge_thresholds import is_merged


def rtl_agreement(
    folder: Path, inputs: Sequence[Tensor], values: Mapping[str, Tensor]
) -> ModelAgreement | None:
    """Agreement of the outputs of a simulation with the float model.

    Args:
        folder: the project.
        inputs: real values of each input, inferences first, of which the first are compared.
        values: what came out, by name of the stream, inferences first.

    Returns:
        The agreement; None where the project holds no float model: thresholds took its place.
    """
    mg, summary = load_graph(folder)
    if is_merged(mg):
        return None
    count, judged = min(len(inputs[0]), MAX_EXAMPLES), judgements(mg)
    exact = float_values(mg, [item[:count] for item in inputs], mg.outputs)
    outputs = {}
    for name, node, stream in zip(mg.output_names, mg.outputs, summary.outputs, strict=True):
        sums, result = Sums(judged[name]), exact[node.name]
        simulated = values[stream.name][:count].reshape(result.shape)
        if not result.is_floating_point():
            simulated = simulated.to(result.dtype)
        parts = [(result, simulated)]
        if not runs_together(mg):
            parts = [*zip(result.unbind(), simulated.unbind(), strict=True)]
        for part in parts:
            sums.add(*part)
        outputs[name] = sums.closeness()
    measured = summary.agreement or ModelAgreement(0, {})
    return replace(measured, examples=count, outputs=outputs, source=RTL)


def float_values(
    mg: MaseGraph, inputs: Sequence[Tensor], nodes: Iterable[Node]
) -> dict[str, Tensor]:
    """Results of the float model at some nodes, `[inferences, ...]`, reals as float64."""
    run, names = float_run(mg), {node.name for node in nodes}
    parts = dict[str, list[Tensor]]()
    with torch.no_grad():
        for part in graph_inputs(mg, inputs):
            for name, value in run.values(part).items():
                if name in names and isinstance(value, Tensor):
                    wide = value.double() if value.is_floating_point() else value
                    parts.setdefault(name, []).append(wide)
    join = torch.cat if runs_together(mg) else torch.stack
    return {name: join(items) for name, items in parts.items()}


def graph_inputs(mg: MaseGraph, inputs: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield real inputs, inferences first, as a graph takes them: a part at a time, in order."""
    size = CHUNK_EXAMPLES if runs_together(mg) else 1
    shapes = [spec(node).shape for node in mg.inputs]
    for part in zip(*(torch.split(item, size) for item in inputs), strict=True):
        yield [
            item.reshape(-1, *shape[1:]) if runs_together(mg) else item.reshape(shape)
            for item, shape in zip(part, shapes, strict=True)
        ]


def runs_together(mg: MaseGraph) -> bool:
    """True if inferences run as one batch."""
    alone = all(spec(node).shape[:1] == (1,) for node in mg.inputs)
    return mg.batched and alone and not mg.keeps_state
