"""Ranges of streams that samples to come keep, too, as far as those that were seen tell."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import ValueRange, metadata, update
from mase_hw.graph.shapes import run_with
from mase_hw.graph.streams import stream_operands
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.formats.agreement import examples_in
from mase_hw.precision.samples import OBSERVED, Samples

# Examples whose extremes ranges are to hold, and the most by which these exceed what was seen.
TO_COME, FURTHER = 10_000, 2.0
# Blocks of examples whose extremes are looked at, and the fewest that tell a trend.
BLOCKS, FEWEST = 16, 4
# Of a Gumbel distribution: its scale over its standard deviation.
SCALE = math.sqrt(6) / math.pi


def with_ranges(mg: MaseGraph, samples: Samples) -> MaseGraph:
    """Return a graph whose ranges hold on the samples, and likely on `TO_COME` like them.

    The extremes of blocks of examples follow a Gumbel distribution (1958), which tells how much
    further more examples reach: not at all where all blocks reach as far, as those of images do.
    """
    parts = [samples.chosen_on, samples.compared_on]
    batches = [inputs for part in parts for inputs in part.spread(mg, OBSERVED)]
    mg, _ = add_software_metadata_analysis_pass(mg, {"data": batches})
    lows, highs = defaultdict[Node, list[Tensor]](list), defaultdict[Node, list[Tensor]](list)
    count = 0

    def visit(node: Node, value: object) -> None:
        if not isinstance(value, Tensor) or not value.is_floating_point() or not value.numel():
            return
        rows = count if value.dim() and len(value) == count else 1
        finite = value.detach().nan_to_num(0.0, 0.0, 0.0).reshape(rows, -1)
        lows[node].append(-finite.amin(1))
        highs[node].append(finite.amax(1))

    states: dict[str, Tensor] = {}
    for inputs in batches:
        inside = mg.batch_dims.inside(inputs)
        count = examples_in(mg, inside)
        run_with(mg, inside, visit, states)
    for node in mg.nodes:
        software = metadata(node).software
        if software is None:
            continue
        ranges = dict(software.ranges)
        for name, source in {**dict(stream_operands(node)), "data_out_0": node}.items():
            if name in ranges and source in highs:
                ranges[name] = _reaching(
                    ranges[name], torch.cat(lows[source]), torch.cat(highs[source])
                )
        update(node, software=replace(software, ranges=ranges))
    return mg


def _reaching(seen: ValueRange, lows: Tensor, highs: Tensor) -> ValueRange:
    if not (math.isfinite(seen.minimum) and math.isfinite(seen.maximum)):
        return seen
    low, high = -_extreme(lows, -seen.minimum), _extreme(highs, seen.maximum)
    # A stream without a sign keeps none.
    low = max(low, 0.0) if seen.minimum >= 0 else low
    high = min(high, 0.0) if seen.maximum <= 0 else high
    return replace(seen, minimum=min(low, seen.minimum), maximum=max(high, seen.maximum))


def _extreme(values: Tensor, seen: float) -> float:
    """Return the largest value that is likely in `TO_COME` examples, of those of each one seen."""
    size = -(-len(values) // BLOCKS)
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(0))
    blocks = torch.stack([item.max() for item in torch.split(values[order].double(), size)])
    if len(blocks) < FEWEST or size >= TO_COME:
        return seen
    reach = float(blocks.mean() + SCALE * blocks.std() * math.log(TO_COME / size))
    return min(reach, seen + (FURTHER - 1) * abs(seen))
