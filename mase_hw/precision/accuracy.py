"""Accuracy on held-out samples: on as many as a bound of what may be lost needs, or on all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.errors import DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.precision.samples import Samples
from mase_hw.training import scores_of

# Samples that are run at a time, and where no accuracy is asked for but at last.
BATCH, GLANCE = 128, 1024
# Standard errors from the bound at which it is decided, of few samples and of many: wrong once in
# twenty, or in six, and checked on all.
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
        parts: of the samples, that were run.
    """

    accuracy: float
    drop: float
    right: Tensor
    parts: int


class Scorer:
    """Accuracy beside that of the float model.

    Samples are run in a random order, always the same, until the loss of accuracy is `SURE`
    standard errors of its mean over the paired samples away from the bound, or from `MANY` of them
    on `NEARLY_SURE`.

    Args:
        mg: a graph without formats.
        samples: of which those held out are run.
        labels: their classes.
        limit: points that may be lost; None where that is not asked.

    Attributes:
        accuracy: of the graph without formats.

    Raises:
        DataError: where the graph has not one class for each label.
    """

    def __init__(
        self, mg: MaseGraph, samples: Samples, labels: Tensor, limit: float | None
    ) -> None:
        self._limit = limit
        self._parts, order = _shuffled(samples.held_out, len(labels))
        self._labels = labels[order]
        classes = torch.cat(list(self._classes(mg)))
        if classes.shape != labels.shape:
            raise DataError(
                f"labels have the shape {tuple(labels.shape)} and the classes that {mg.name} finds "
                f"{tuple(classes.shape)}; give one label an example"
            )
        self._right = (classes == self._labels).double()
        self.accuracy = float(self._right.mean())

    @property
    def examples(self) -> int:
        """How many samples there are."""
        return len(self._labels)

    def of(self, mg: MaseGraph, known: Scored | None = None) -> Scored:
        """Return the accuracy of a graph on as many samples as the bound needs.

        Args:
            mg: the graph.
            known: what this gave before, to go on with to the last sample.
        """
        right = torch.zeros(0, dtype=torch.float64) if known is None else known.right
        done = 0 if known is None else known.parts
        lost = self._right[: len(right)] - right
        for classes in self._classes(mg, done):
            done += 1
            part = slice(len(right), len(right) + len(classes))
            right = torch.cat([right, (classes == self._labels[part]).double()])
            lost = self._right[: len(right)] - right
            if known is None and self._is_decided(lost):
                break
        # Shares of counts: 2 of 100 samples are 2 points, as whoever asks for 2 says.
        drop = round(PERCENT * float(lost.sum()) / max(len(lost), 1), DIGITS)
        return Scored(float(right.mean()), drop, right, done)

    def _is_decided(self, lost: Tensor) -> bool:
        if self._limit is None:
            return len(lost) >= GLANCE
        # One sample more that differs, as none of few says little.
        power = (float(lost.square().sum()) + 1.0) / (len(lost) + 1)
        error = math.sqrt(power / len(lost))
        sure = SURE if len(lost) < MANY else NEARLY_SURE
        return abs(float(lost.mean()) - self._limit / PERCENT) > sure * error

    def _classes(self, mg: MaseGraph, done: int = 0) -> Iterator[Tensor]:
        mg.eval()
        for inputs in self._parts[done:]:
            with torch.no_grad():
                scores = scores_of(mg(*inputs))
            whole = not scores.is_floating_point()
            yield scores.reshape(-1) if whole else scores.reshape(len(scores), -1).argmax(1)


def _shuffled(batches: Sequence[Sequence[Tensor]], count: int) -> tuple[list[list[Tensor]], Tensor]:
    """Return the samples of one batch in a random order, in parts, and that order.

    Several batches stay as they are.
    """
    if len(batches) != 1 or any(len(item) != count for item in batches[0] if item.dim()):
        return [list(part) for part in batches], torch.arange(count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    parts = torch.split(order, BATCH)
    return [[x[part] if x.dim() else x for x in batches[0]] for part in parts], order
