"""How near graphs in formats come to the float model on some samples, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from mase_hw.errors import UnsupportedError
from mase_hw.graph.agreement import Closeness, Judgement, Sums
from mase_hw.graph.fills import float_run
from mase_hw.graph.judgements import judgements
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.formats.agreement import examples_in
from mase_hw.precision.interval import Interval, of_share
from mase_hw.precision.samples import Batches, chunks

# Examples that are run at a time.
CHUNK = 128
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
        self._parts = list(chunks(mg, batches, CHUNK))
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
        """Return the agreement of a graph.

        Raises:
            UnsupportedError: where no output is computed.
        """
        mg.eval()
        run, sums = GraphRun(mg), dict[str, Sums]()
        groups: dict[str, _Groups] = {}
        for exact, inputs, places in zip(self._exact, self._parts, self._groups, strict=True):
            rounded = _outputs(mg, run, inputs)
            for name, value in exact.items():
                how = self._judgements[name]
                sums.setdefault(name, Sums(how)).add(value, rounded[name])
                groups.setdefault(name, _Groups(how)).add(value, rounded[name], places)
        if not sums:
            raise UnsupportedError(f"{mg.name} has no output that a format changes")
        outputs = {name: item.closeness() for name, item in sums.items()}
        intervals = {
            name: interval
            for name, item in outputs.items()
            if (interval := _interval(item, groups[name], self.examples)) is not None
        }
        return Judged(outputs, intervals, {name: item.noise() for name, item in groups.items()})


class _Groups:
    """Sums of one output by group of examples: elements, values, squares, squares of errors."""

    def __init__(self, judgement: Judgement) -> None:
        self._axis = judgement.axis
        self._sums = torch.zeros(0)

    def add(self, exact: Tensor, rounded: Tensor, places: Tensor) -> None:
        """Add examples that belong to groups."""
        channels = 1 if self._axis is None else exact.shape[self._axis]
        exact, rounded = (
            (item if self._axis is None else item.movedim(self._axis, -1))
            .reshape(len(places), -1, channels)
            .double()
            for item in (exact, rounded)
        )
        finite = exact.isfinite()
        exact = torch.where(finite, exact, 0.0)
        error = torch.where(finite, rounded - exact, 0.0)
        terms = torch.stack([finite.double(), exact, exact.square(), error.square()]).sum(2)
        if not len(self._sums):
            self._sums = torch.zeros(4, GROUPS, terms.shape[-1], dtype=torch.float64)
        self._sums.index_add_(1, places, terms)

    def noise(self) -> tuple[Tensor, Tensor]:
        """Return elements and squares of errors by channel."""
        count, _, _, noise = self._sums.sum(1)
        return count, noise

    def spread_db(self, *, together: bool) -> Interval | None:
        """Return how far below and above a ratio that of other samples may lie, in decibels.

        Args:
            together: whether all channels have one ratio, or the worst counts.
        """
        sums = self._sums[:, self._sums[0].sum(1) > 0]
        count = sums.shape[1]
        if count < FEWEST:
            return None
        sums = _joined(sums) if together else sums
        worst = _ratios(sums.sum(1)).argsort()[:CHANNELS]
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randint(count, (DRAWS, count), generator=generator)
        weights = torch.zeros(DRAWS, count, dtype=torch.float64)
        weights.scatter_add_(1, drawn, torch.ones_like(weights))
        ratios = _ratios(torch.einsum("dg,kgc->kdc", weights, sums[..., worst])).amin(-1)
        ratios = ratios[ratios.isfinite()]
        if len(ratios) < DRAWS // 2:
            return None
        ends = torch.tensor([TAIL, 0.5, 1 - TAIL], dtype=torch.float64)
        low, middle, high = ratios.quantile(ends).tolist()
        return middle - low, high - middle


def _joined(sums: Tensor) -> Tensor:
    """Return sums over all channels, each about its own mean."""
    count, first, second, noise = sums
    mean = first.sum(0) / count.sum(0).clamp(min=1.0)
    about = second - 2 * mean * first + mean.square() * count
    return torch.stack([count, torch.zeros_like(first), about, noise]).sum(-1, keepdim=True)


def _ratios(sums: Tensor) -> Tensor:
    """Return decibels of what varies over errors by channel, of sums `[4, ..., channels]`."""
    count, first, second, noise = sums
    varying = (second - first.square() / count.clamp(min=1.0)).clamp(min=1e-300)
    return torch.where(noise > 0, 10.0 * (varying / noise).log10(), math.inf)


def _interval(item: Closeness, groups: _Groups, examples: int) -> Interval | None:
    if item.sqnr_db is None:
        return of_share((item.equal or 0.0) * examples, examples)
    spread = groups.spread_db(together=item.channel is None)
    if spread is None or not math.isfinite(item.sqnr_db):
        return None
    return item.sqnr_db - spread[0], item.sqnr_db + spread[1]


@torch.no_grad()
def _outputs(mg: MaseGraph, run: GraphRun, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    named = zip(mg.returned(), tree_leaves(run(inputs)), strict=True)
    return {
        name: value
        for (name, leaf), value in named
        if isinstance(leaf, Node) and leaf.op == "call_function"
    }
