"""Ranges, codes and biases fitted to samples, so that the same formats lose less.

`CHANGES` are tried on a graph before it has formats; the float model stays the same function.
`STEPS` are tried on a graph in its formats, whose fields stay or are chosen anew, but not widths.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from mase_hw._logs import at_level
from mase_hw.errors import UnsupportedError
from mase_hw.formats import DEFAULT_FORMAT
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.passes.compression.correct_bias import correct_bias_transform_pass
from mase_hw.passes.compression.gptq import gptq_transform_pass
from mase_hw.passes.compression.rotate import rotate_transform_pass
from mase_hw.passes.compression.scale_channels import scale_channels_transform_pass
from mase_hw.passes.compression.walk import layers
from mase_hw.passes.formats.calibrate import calibrate_analysis_pass
from mase_hw.passes.formats.quantize import quantize_transform_pass

Batches = Sequence[Sequence[Tensor]]
# Width of the weights for which channels are scaled, and the strength where activations decide.
NARROW, STRENGTH = 8, 0.5
BLOCK = 32


@dataclass(frozen=True)
class Formats:
    """A graph in formats, on the way.

    Attributes:
        base: the canonical graph without formats.
        config: the formats.
        opened: the same without fields fitted to observed values.
        graph: the base in these formats.
        data: batches to fit to.
    """

    base: MaseGraph
    config: Mapping[str, object]
    opened: Mapping[str, object]
    graph: MaseGraph
    data: Batches


def _ranges(observer: str, formats: Formats) -> Formats:
    arguments = {"config": formats.opened, "data": formats.data, "observer": observer}
    config = calibrate_analysis_pass(formats.base, arguments)[1]["config"]
    graph, _ = quantize_transform_pass(formats.base, config)
    return replace(formats, config=config, graph=graph)


def _codes(formats: Formats) -> Formats:
    if not any(formats.graph.call(node).constants for node in layers(formats.graph)):
        raise UnsupportedError("there is no layer with a matrix of weights of its own")
    # Layers that keep rounding to nearest are no news where each preparation is tried.
    with at_level(logging.ERROR, gptq_transform_pass.__module__):
        graph, _ = gptq_transform_pass(formats.graph, {"data": formats.data})
    return replace(formats, graph=graph)


def _biases(formats: Formats) -> Formats:
    graph, _ = correct_bias_transform_pass(formats.graph, {"data": formats.data})
    return replace(formats, graph=graph)


OF_RANGES: Mapping[str, Callable[[Formats], Formats]] = {
    "percentile ranges": partial(_ranges, "percentile"),
    "ranges of least error": partial(_ranges, "mse"),
}
OF_WEIGHTS: Mapping[str, Callable[[Formats], Formats]] = {
    "GPTQ": _codes,
    "bias correction": _biases,
}
STEPS = {**OF_RANGES, **OF_WEIGHTS}


def _scaled(mg: MaseGraph, data: Batches, **arguments: object) -> MaseGraph | None:
    mg, info = scale_channels_transform_pass(mg, {"data": data, **arguments})
    return mg if any(info["strengths"].values()) else None


def _rotated(mg: MaseGraph, data: Batches) -> MaseGraph | None:
    mg, info = rotate_transform_pass(mg, {"block": BLOCK})
    return mg if info["rotated"] else None


NARROW_FORMAT = {"name": DEFAULT_FORMAT, "width": NARROW}
CHANGES: Mapping[str, Callable[[MaseGraph, Batches], MaseGraph | None]] = {
    "channels scaled for weights": partial(_scaled, weight=NARROW_FORMAT),
    "channels scaled for activations": partial(_scaled, strength=STRENGTH),
    "rotation": _rotated,
}
