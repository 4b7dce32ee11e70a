"""Tasks: what a model's outputs are trained towards, and what says how good they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from mase_hw.errors import ConfigError, DataError
from mase_hw.registry import nearest

# A label that neither the loss nor the metric counts, as in transformers and torch.
IGNORED = -100

# From scores and labels of one batch to the sum of what is measured, and the number of terms.
Measure = Callable[[Tensor, Tensor], tuple[float, int]]


@dataclass(frozen=True)
class Metric:
    """A figure of merit that is a function of a mean.

    Attributes:
        name: the word a table uses.
        direction: `maximize` or `minimize`.
        measure: sum and number of terms of one batch.
        finish: from the mean to the figure.
        share: whether it is a share of independent samples, which has a standard error.
    """

    name: str
    direction: str
    measure: Measure
    finish: Callable[[float], float] = float
    share: bool = False

    def __call__(self, scores: Tensor, labels: Tensor) -> float:
        """Return the figure of scores, NaN where no label counts."""
        total, terms = self.measure(scores, labels)
        return self.finish(total / terms) if terms else math.nan

    def standard_error(self, value: float, samples: int) -> float | None:
        """Return that of a share of `samples` samples; None of any other figure."""
        return standard_error(value, samples) if self.share else None


@dataclass(frozen=True)
class Task:
    """A loss and the metric that goes with it.

    Attributes:
        name: the word a configuration uses.
        loss: from scores and labels of a batch to a scalar.
        metric: how good scores are.
        classes: whether labels are classes: whole numbers below the last size of the scores.
    """

    name: str
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: Metric
    classes: bool = True


def standard_error(share: float, samples: int) -> float:
    """Return the standard error `sqrt(p (1 - p) / n)` of a share of independent samples."""
    return math.sqrt(max(0.0, share * (1.0 - share)) / samples)


def counted(labels: Tensor) -> int:
    """Return how many labels count."""
    return int((labels != IGNORED).sum())


def scores_of(outputs: object) -> Tensor:
    """Scores of samples in a model's outputs.

    A tensor itself; `logits` of a dictionary or of an output of transformers, its last hidden
    state without; the first of several.

    Raises:
        DataError: when there is none.
    """
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, Mapping):
        for name in ("logits", "last_hidden_state"):
            scores = outputs.get(name)
            if isinstance(scores, Tensor):
                return scores
        outputs = [value for name, value in outputs.items() if name != "loss"]
    elif hasattr(outputs, "logits"):
        return scores_of(outputs.logits)
    if isinstance(outputs, list | tuple) and outputs:
        return scores_of(outputs[0])
    raise DataError(f"a model returned {type(outputs).__name__}; allowed: tensors, or a structure")


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, -2), labels.flatten(), ignore_index=IGNORED)


def _next_token(scores: Tensor, labels: Tensor) -> Tensor:
    return _cross_entropy(scores[:, :-1], labels[:, 1:])


def _right(scores: Tensor, labels: Tensor) -> tuple[float, int]:
    rows = scores.reshape(*labels.shape, -1).argmax(dim=-1)
    counted = labels != IGNORED
    return float(((rows == labels) & counted).sum()), int(counted.sum())


def _squares(scores: Tensor, labels: Tensor) -> tuple[float, int]:
    errors = scores.reshape(labels.shape).double() - labels.double()
    return float(errors.square().sum()), labels.numel()


def _surprise(scores: Tensor, labels: Tensor) -> tuple[float, int]:
    counted = int((labels != IGNORED).sum())
    if not counted:
        return 0.0, 0
    total = F.cross_entropy(
        scores.flatten(0, -2).float(), labels.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return float(total), counted


def _next_surprise(scores: Tensor, labels: Tensor) -> tuple[float, int]:
    return _surprise(scores[:, :-1], labels[:, 1:])


ACCURACY = Metric("accuracy", "maximize", _right, share=True)
MEAN_SQUARED_ERROR = Metric("mean_squared_error", "minimize", _squares)
PERPLEXITY = Metric("perplexity", "minimize", _next_surprise, math.exp)
MASKED_PERPLEXITY = Metric("perplexity", "minimize", _surprise, math.exp)

TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task("classification", _cross_entropy, ACCURACY),
        Task(
            "regression",
            lambda scores, labels: F.mse_loss(scores.reshape(labels.shape), labels.to(scores)),
            MEAN_SQUARED_ERROR,
            classes=False,
        ),
        Task("language_modeling", _next_token, PERPLEXITY),
        Task("masked_language_modeling", _cross_entropy, MASKED_PERPLEXITY),
    )
}


def task_of(name: str | Task) -> Task:
    """Return the task of a name.

    Raises:
        ConfigError: when there is none.
    """
    if isinstance(name, Task):
        return name
    if name not in TASKS:
        raise ConfigError(f"training has no task {name!r}; {nearest(str(name), TASKS)}")
    return TASKS[name]
