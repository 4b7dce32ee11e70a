"""Agreement and accuracy of graphs in formats on samples, with 95 % intervals of confidence.

Shares have Wilson's (1927), losses of paired shares the square-and-add combination of two of them
(Newcombe, 1998, method 10), decibels that of a bootstrap over groups of examples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from mase_hw.errors import DataError, UnsupportedError
from mase_hw.graph.agreement import Closeness, Sums, ratios
from mase_hw.graph.fills import float_run
from mase_hw.graph.judgements import judgements
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.formats.agreement import examples_in, split_examples
from mase_hw.precision.samples import Batches, Part, take
from mase_hw.training import scores_of

Interval = tuple[float, float]
# Quantile of the normal distribution for 95 %, both sides.
Z = 1.959964
PERCENT = 100.0
# Of a loss in points, which floats do not hold exactly.
DIGITS = 9
# Samples that are run at a time, and where no accuracy is asked for but at last.
BATCH, GLANCE = 128, 1024
# Standard errors from the bound at which a loss is too large, of few samples and of many; and at
# which it is small enough.
SURE, MANY, NEARLY_SURE = 2.0, 1024, 1.0
# Examples form so many groups at most, of which so many draws are taken; of fewer, none.
GROUPS, DRAWS, FEWEST = 256, 400, 8
# Channels of an output whose figures are drawn, the worst ones.
CHANNELS = 64
TAIL = 0.025


def of_share(count: float, samples: int) -> Interval:
    """Return the interval of a share, `count` of independent samples."""
    share, z2 = count / samples, Z * Z / samples
    middle = (share + z2 / 2) / (1 + z2)
    half = Z / (1 + z2) * math.sqrt(share * (1 - share) / samples + z2 / (4 * samples))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def of_loss(lost: int, won: int, samples: int) -> Interval:
    """Return the interval of the difference of two shares of the same samples.

    Of these, `lost` count for the first share alone, `won` for the second alone.
    """
    (low, high), (least, most) = of_share(lost, samples), of_share(won, samples)
    first, second = lost / samples, won / samples
    odds = [share / (1.0 - share) if share < 1.0 else 0.0 for share in (first, second)]
    # A sample counts for one of them at most.
    together = 2.0 * math.sqrt(odds[0] * odds[1])
    ends = (first - low, most - second), (high - first, second - least)
    below, above = (math.sqrt(a * a + b * b + together * a * b) for a, b in ends)
    return first - second - below, first - second + above


def resolved_share(samples: int) -> float:
    """Return the least share that samples tell from zero: where none of them shows it."""
    return of_share(0, samples)[1]


def samples_for(share: float) -> int:
    """Return how many samples tell a share from zero."""
    return math.ceil(Z * Z * (1 / share - 1))


@dataclass(frozen=True)
class Scored:
    """Samples with the right class.

    Attributes:
        accuracy: their share.
        drop: points that the float model has more on the same samples.
        right: of the samples that were run, one where the class is right, float64.
        lost: the float model's advantage, 1, 0 or -1 by sample.
        parts: of the samples, that were run.
    """

    accuracy: float
    drop: float
    right: Tensor
    lost: Tensor
    parts: int

    @property
    def interval(self) -> Interval:
        """That of the accuracy, 95 %."""
        return of_share(float(self.right.sum()), len(self.right))

    @property
    def drop_interval(self) -> Interval:
        """That of the points lost, 95 %."""
        counts = int((self.lost > 0).sum()), int((self.lost < 0).sum())
        low, high = of_loss(*counts, len(self.lost))
        return PERCENT * low, PERCENT * high

    @property
    def drop_error(self) -> float:
        """The standard error of the points lost."""
        return PERCENT * math.sqrt(float(self.lost.square().sum())) / max(len(self.lost), 1)


class Scorer:
    """Accuracy beside that of the float model.

    Samples are run in a random order, always the same, until the loss of accuracy is `SURE`
    standard errors of its mean over the paired samples away from the bound, or from `MANY` of them
    on `NEARLY_SURE` beyond it.

    Args:
        mg: a graph without formats.
        part: samples; where they have no labels, the classes that the graph itself gives.
        limit: points that may be lost; None where that is not asked.

    Attributes:
        accuracy: of the graph without formats.

    Raises:
        DataError: where the graph has not one class for each label.
    """

    def __init__(self, mg: MaseGraph, part: Part, limit: float | None = None) -> None:
        self._limit = limit
        # Several batches keep their order.
        self._parts, order = list(part.batches), torch.arange(part.examples)
        if len(part.batches) == 1 and mg.batched and not mg.keeps_state:
            order = torch.randperm(part.examples, generator=torch.Generator().manual_seed(0))
            self._parts = [take(mg, part.batches[0], item) for item in torch.split(order, BATCH)]
        classes = torch.cat(list(self._classes(mg)))
        self._labels = classes if part.labels is None else part.labels[order]
        if classes.shape != self._labels.shape:
            raise DataError(
                f"labels have the shape {tuple(self._labels.shape)} and the classes that {mg.name} "
                f"finds {tuple(classes.shape)}; give one label an example"
            )
        self._right = (classes == self._labels).double()
        self.accuracy = float(self._right.mean())

    @property
    def examples(self) -> int:
        """How many samples there are."""
        return len(self._labels)

    def of(self, mg: MaseGraph, scored: Scored | None = None) -> Scored:
        """Return the accuracy of a graph on as many samples as the bound needs.

        An earlier result is continued to the last sample.
        """
        right = torch.zeros(0, dtype=torch.float64) if scored is None else scored.right
        done = 0 if scored is None else scored.parts
        lost = self._right[: len(right)] - right
        for classes in self._classes(mg, done):
            done += 1
            part = slice(len(right), len(right) + len(classes))
            right = torch.cat([right, (classes == self._labels[part]).double()])
            lost = self._right[: len(right)] - right
            if scored is None and self._is_decided(lost):
                break
        # Shares of counts: 2 of 100 samples are 2 points, as whoever asks for 2 says.
        drop = round(PERCENT * float(lost.sum()) / max(len(lost), 1), DIGITS)
        return Scored(float(right.mean()), drop, right, lost, done)

    def _is_decided(self, lost: Tensor) -> bool:
        if self._limit is None:
            return len(lost) >= GLANCE
        # One sample more that differs, as none of few says little.
        power = (float(lost.square().sum()) + 1.0) / (len(lost) + 1)
        error = math.sqrt(power / len(lost))
        beyond = float(lost.mean()) - self._limit / PERCENT
        return (
            beyond > (SURE if len(lost) < MANY else NEARLY_SURE) * error or -beyond > SURE * error
        )

    def _classes(self, mg: MaseGraph, done: int = 0) -> Iterator[Tensor]:
        mg.eval()
        for inputs in self._parts[done:]:
            with torch.no_grad():
                scores = scores_of(mg(*inputs))
            whole = not scores.is_floating_point()
            yield scores.reshape(-1) if whole else scores.reshape(len(scores), -1).argmax(1)


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
    """The float model's outputs on batches of inputs, beside which graphs in formats are run."""

    def __init__(self, mg: MaseGraph, batches: Batches) -> None:
        apart = mg.batched and not mg.keeps_state
        self._parts: list[Sequence[Tensor]] = []
        for inputs in map(mg.batch_dims.inside, batches):
            self._parts += split_examples(inputs, examples_in(mg, inputs)) if apart else [inputs]
        sizes = [examples_in(mg, inputs) for inputs in self._parts]
        self.examples = sum(sizes)
        mg.eval()
        self._judgements = judgements(mg)
        run = float_run(mg)
        self._exact = [_outputs(mg, run, inputs) for inputs in self._parts]
        counts = sizes if apart else [1] * len(sizes)
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
        return Judged(
            outputs,
            {name: interval for name, interval in ends.items() if interval is not None},
            {n: (m[0].sum(0), m[1].sum(0)) for n, m in moments.items() if m is not None},
        )


def _interval(item: Closeness, moments: Tensor | None, examples: int) -> Interval | None:
    if item.sqnr_db is None or moments is None:
        return of_share((item.equal or 0.0) * examples, examples)
    spread = _spread_db(moments, together=item.channel is None)
    if spread is None or not math.isfinite(item.sqnr_db):
        return None
    return item.sqnr_db - spread[0], item.sqnr_db + spread[1]


def _spread_db(moments: Tensor, *, together: bool) -> Interval | None:
    """Decibels by which the ratio of other samples may lie below and above, by bootstrap.

    The moments are of groups of examples, see `Sums`. Channels have one ratio `together`, or the
    worst counts.
    """
    sums = moments[:4, moments[0].sum(1) > 0]
    groups = sums.shape[1]
    if groups < FEWEST:
        return None
    if together:
        # Of all channels, each about its own mean.
        count, noise, first, second = sums
        mean = first.sum(0) / count.sum(0).clamp(min=1.0)
        about = second - 2 * mean * first + mean.square() * count
        sums = torch.stack([count, noise, torch.zeros_like(first), about]).sum(-1, keepdim=True)
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


def _varying_db(sums: Tensor) -> Tensor:
    """Return decibels of variation over errors by channel, of sums `[4, ..., channels]`."""
    count, noise, first, second = sums
    return ratios((second - first.square() / count.clamp(min=1.0)).clamp(min=1e-300), noise)


@torch.no_grad()
def _outputs(mg: MaseGraph, run: GraphRun, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    named = zip(mg.returned(), tree_leaves(run(inputs)), strict=True)
    return {
        name: value
        for (name, leaf), value in named
        if isinstance(leaf, Node) and leaf.op == "call_function"
    }
