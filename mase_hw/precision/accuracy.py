"""Accuracy: on as many samples as a bound of what may be lost needs, or on all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.errors import DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.precision.interval import Interval, of_loss, of_share
from mase_hw.precision.samples import Part, take
from mase_hw.training import scores_of

# Samples that are run at a time, and where no accuracy is asked for but at last.
BATCH, GLANCE = 128, 1024
# Standard errors from the bound at which a loss is too large, of few samples and of many; and at
# which it is small enough.
SURE, MANY, NEARLY_SURE = 2.0, 1024, 1.0
PERCENT = 100.0
# Of a loss in points, which floats do not hold exactly.
DIGITS = 9


@dataclass(frozen=True)
class Scored:
    """How many samples have the right class.

    Attributes:
        accuracy: their share.
        drop: points that the float model has more on the same samples.
        right: of the samples that were run, one where the class is right, float64.
        lost: what the float model has more of that, 1, 0 or -1.
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
        self._parts, order = _shuffled(mg, part)
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

        Args:
            mg: the graph.
            scored: what this gave before, to go on with to the last sample.
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


def _shuffled(mg: MaseGraph, part: Part) -> tuple[list[Sequence[Tensor]], Tensor]:
    """Return the samples of one batch in a random order, in parts, and that order.

    Several batches stay as they are.
    """
    if len(part.batches) != 1 or not mg.batched or mg.keeps_state:
        return list(part.batches), torch.arange(part.examples)
    order = torch.randperm(part.examples, generator=torch.Generator().manual_seed(0))
    return [take(mg, part.batches[0], places) for places in torch.split(order, BATCH)], order
