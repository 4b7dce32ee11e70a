"""The outputs of a simulation beside the float model, on the same inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

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
    """Return how far the outputs of a simulation are from the float model.

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
    count = min(len(inputs[0]), MAX_EXAMPLES)
    known = judgements(mg)
    sums = [Sums(known[name]) for name in mg.output_names]
    start = 0
    for results in _float_results(mg, [item[:count] for item in inputs]):
        size = min(CHUNK_EXAMPLES, count - start) if runs_together(mg) else 1
        for total, exact, stream in zip(sums, results, summary.outputs, strict=True):
            found = values[stream.name][start : start + size].reshape(exact.shape)
            real = exact.is_floating_point()
            total.add(exact.double() if real else exact, found if real else found.to(exact.dtype))
        start += size
    outputs = dict(zip(mg.output_names, (total.closeness() for total in sums), strict=True))
    measured = summary.agreement or ModelAgreement(0, {})
    return replace(measured, examples=count, outputs=outputs, source=RTL)


def _float_results(mg: MaseGraph, inputs: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield the outputs of the float model for parts of the inputs, in order."""
    run = float_run(mg)
    with torch.no_grad():
        for given in graph_inputs(mg, inputs):
            yield [item for item in tree_leaves(run(given)) if isinstance(item, Tensor)]


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
