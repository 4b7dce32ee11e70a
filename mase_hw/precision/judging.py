"""How near graphs in formats come to the float model on some samples, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from mase_hw.errors import UnsupportedError
from mase_hw.graph.agreement import Closeness, Sums, ratios
from mase_hw.graph.fills import float_run
from mase_hw.graph.judgements import judgements
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.formats.agreement import examples_in, split_examples
from mase_hw.precision.interval import Interval, of_share
from mase_hw.precision.samples import Batches

# Examples form so many groups at most, of which so many draws are taken; of fewer, none.
GROUPS, DRAWS, FEWEST = 256, 400, 8
# Channels of an output whose figures are drawn, the worst ones.
CHANNELS = 64
TAIL = 0.025


@dataclass(frozen=True)
class Judged:
    """Agreement of a graph in formats.

    Attributes:
        outputs: agreement by name of the output.
        intervals: 95 % intervals of it by name, in decibels, or as a share of equal elements; none
            of outputs of a few examples.
        noise: elements and squares of errors by channel, by name of the output.
    """

    outputs: Mapping[str, Closeness]
    intervals: Mapping[str, Interval]
    noise: Mapping[str, tuple[Tensor, Tensor]]


class Judge:
    """The float model's outputs on a part of the samples, beside which graphs are run.

    Args:
        mg: a canonical graph without formats.
        batches: inputs, as callers of the graph give them.
    """

    def __init__(self, mg: MaseGraph, batches: Batches) -> None:
        self._parts = list(_chunks(mg, batches))
        self.examples = sum(examples_in(mg, inputs) for inputs in self._parts)
        mg.eval()
        self._judgements = judgements(mg)
        run = float_run(mg)
        self._exact = [_outputs(mg, run, inputs) for inputs in self._parts]
        apart = mg.batched and not mg.keeps_state
        counts = [examples_in(mg, inputs) if apart else 1 for inputs in self._parts]
        order = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(0))
        self._groups = torch.split(order % GROUPS, counts)

    def of(self, mg: MaseGraph) -> Judged:
        """Agreement of a graph in formats.

        Raises:
            UnsupportedError: where no output is computed.
        """
        mg.eval()
        run, sums = GraphRun(mg), dict[str, Sums]()
        for exact, inputs, places in zip(self._exact, self._parts, self._groups, strict=True):
            rounded = _outputs(mg, run, inputs)
            for name, value in exact.items():
                total = sums.setdefault(name, Sums(self._judgements[name], GROUPS))
                total.add(value, rounded[name], places)
        if not sums:
            raise UnsupportedError(f"{mg.name} has no output that a format changes")
        outputs = {name: item.closeness() for name, item in sums.items()}
        moments = {name: item.moments for name, item in sums.items()}
        ends = {
            name: _interval(item, moments[name], self.examples) for name, item in outputs.items()
        }
        intervals = {name: interval for name, interval in ends.items() if interval is not None}
        noise = {
            name: (item[0].sum(0), item[1].sum(0))
            for name, item in moments.items()
            if item is not None
        }
        return Judged(outputs, intervals, noise)


def spread_db(moments: Tensor, *, together: bool) -> Interval | None:
    """Decibels by which the ratio of other samples may lie below and above, by bootstrap.

    Args:
        moments: of groups of examples, see `Sums`.
        together: whether all channels have one ratio, or the worst counts.
    """
    sums = moments[:4, moments[0].sum(1) > 0]
    groups = sums.shape[1]
    if groups < FEWEST:
        return None
    sums = _joined(sums) if together else sums
    worst = _varying_db(sums.sum(1)).argsort()[:CHANNELS]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(groups, (DRAWS, groups), generator=generator)
    weights = torch.zeros(DRAWS, groups, dtype=torch.float64)
    weights.scatter_add_(1, drawn, torch.ones_like(weights))
    draws = _varying_db(torch.einsum("dg,kgc->kdc", weights, sums[..., worst])).amin(-1)
    draws = draws[draws.isfinite()]
    if len(draws) < DRAWS // 2:
        return None
    ends = torch.tensor([TAIL, 0.5, 1 - TAIL], dtype=torch.float64)
    low, middle, high = draws.quantile(ends).tolist()
    return middle - low, high - middle


def _joined(sums: Tensor) -> Tensor:
    """Return sums over all channels, each about its own mean."""
    count, noise, first, second = sums
    mean = first.sum(0) / count.sum(0).clamp(min=1.0)
    about = second - 2 * mean * first + mean.square() * count
    return torch.stack([count, noise, torch.zeros_like(first), about]).sum(-1, keepdim=True)


def _varying_db(sums: Tensor) -> Tensor:
    """Return decibels of what varies over errors by channel, of sums `[4, ..., channels]`."""
    count, noise, first, second = sums
    return ratios((second - first.square() / count.clamp(min=1.0)).clamp(min=1e-300), noise)


def _interval(item: Closeness, moments: Tensor | None, examples: int) -> Interval | None:
    if item.sqnr_db is None or moments is None:
        return of_share((item.equal or 0.0) * examples, examples)
    spread = spread_db(moments, together=item.channel is None)
    if spread is None or not math.isfinite(item.sqnr_db):
        return None
    return item.sqnr_db - spread[0], item.sqnr_db + spread[1]


def _chunks(mg: MaseGraph, batches: Batches) -> Iterator[list[Tensor]]:
    """Yield inputs with the batch first, a few examples at a time."""
    for inputs in batches:
        inside = mg.batch_dims.inside(inputs)
        apart = mg.batched and not mg.keeps_state
        yield from split_examples(inside, examples_in(mg, inside)) if apart else [inside]


@torch.no_grad()
def _outputs(mg: MaseGraph, run: GraphRun, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return the computed outputs by name."""
    named = zip(mg.returned(), tree_leaves(run(inputs)), strict=True)
    return {
        name: value
        for (name, leaf), value in named
        if isinstance(leaf, Node) and leaf.op == "call_function"
    }
