"""Supervised training of any module by a classification loss, seeded, with checkpoints.

Quantisation-aware training is this loop over `mase_hw.graph.quantized.QuantizedModel`: its forward
pass rounds, its gradients go straight through (Bengio et al. 2013, arXiv:1308.3432), and its
parameters are the graph's own.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError, DataError

Progress = Callable[[int, int], None]
EVALUATION_BATCH = 1024


@dataclass(frozen=True)
class Trainer:
    """A recipe: Adam (Kingma & Ba 2015, arXiv:1412.6980), its rate annealed to zero by a cosine.

    Attributes:
        epochs: passes over the samples.
        learning_rate: at the start.
        batch_size: samples of a step.
        seed: of the order of the samples.
        progress: called with (epochs done, epochs).
        checkpoint: file that holds the state after every epoch; training goes on from it.

    Raises:
        ConfigError: when a number is out of range.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> Trainer(epochs=3).fit(model, torch.randn(8, 2), torch.tensor([0, 1] * 4))
    """

    epochs: int = 10
    learning_rate: float = 1e-3
    batch_size: int = 64
    seed: int = 0
    progress: Progress | None = None
    checkpoint: Path | None = None

    def __post_init__(self) -> None:
        for name, low in (("epochs", 0), ("batch_size", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise ConfigError(f"training: {name} is {value!r}; allowed: a number from {low}")
        if not self.learning_rate > 0:
            raise ConfigError(f"training: learning_rate is {self.learning_rate!r}; allowed: > 0")

    def fit(self, module: nn.Module, inputs: Tensor, labels: Tensor) -> None:
        """Train the parameters of `module` in place.

        Args:
            module: takes a batch of inputs, returns scores `[samples, classes]`.
            inputs: `[samples, ...]`.
            labels: int64 `[samples]`.

        Raises:
            DataError: for an empty data set, or a label outside the classes.
        """
        check_samples(module, inputs, labels)
        parameters = [item for item in module.parameters() if item.requires_grad]
        if not parameters:
            raise ConfigError("training: the model has no parameter that trains")
        optimizer = torch.optim.Adam(parameters, self.learning_rate)
        steps = max(1, self.epochs * -(-len(labels) // self.batch_size))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        start = self._restore(module, optimizer, schedule)
        for epoch in range(start, self.epochs):
            # The order of an epoch depends on the seed and its number alone: resuming repeats it.
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            order = torch.randperm(len(labels), generator=generator)
            for index in torch.split(order, self.batch_size):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(module(inputs[index]), labels[index])
                torch.autograd.backward(loss)
                optimizer.step()
                schedule.step()
            self._save(module, optimizer, schedule, epoch + 1)
            if self.progress:
                self.progress(epoch + 1, self.epochs)

    def _save(self, module: nn.Module, optimizer: Any, schedule: Any, epoch: int) -> None:
        if self.checkpoint is None:
            return
        state = {
            "epoch": epoch,
            "model": module.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
        }
        folder = self.checkpoint.absolute().parent
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            torch.save(state, file)
        Path(file.name).replace(self.checkpoint)

    def _restore(self, module: nn.Module, optimizer: Any, schedule: Any) -> int:
        if self.checkpoint is None or not self.checkpoint.exists():
            return 0
        try:
            state = torch.load(self.checkpoint, weights_only=True)
            module.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            schedule.load_state_dict(state["schedule"])
        except Exception as error:
            raise DataError(f"{self.checkpoint} is no checkpoint of this model: {error}") from error
        return int(state["epoch"])


def check_samples(module: nn.Module, inputs: Tensor, labels: Tensor) -> None:
    """Refuse samples that a classifier cannot be trained or measured on.

    Raises:
        DataError: for an empty data set, samples of another shape, or a label outside the classes.
    """
    if len(labels) == 0 or len(inputs) == 0:
        raise DataError("the data set is empty; give at least one sample")
    if len(inputs) != len(labels):
        raise DataError(f"the data set has {len(inputs)} samples and {len(labels)} labels")
    try:
        with torch.no_grad():
            classes = int(module(inputs[:2]).shape[-1])
    except RuntimeError as error:
        shape = tuple(inputs.shape[1:])
        raise DataError(f"samples of shape {shape} do not fit the model: {error}") from error
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        outside = low if low < 0 else high
        raise DataError(f"label {outside} is outside the classes 0 to {classes - 1} of the model")


def evaluate(module: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor) -> float:
    """Return the share of samples whose largest score is that of their label.

    Raises:
        DataError: for an empty data set.
    """
    if len(labels) == 0:
        raise DataError("the data set is empty; give at least one sample")
    with torch.no_grad():
        scores = [module(part) for part in torch.split(inputs, EVALUATION_BATCH)]
    return accuracy(torch.cat(scores), labels)


def standard_error(share: float, samples: int) -> float:
    """Return the standard error `sqrt(p (1 - p) / n)` of a share of independent samples."""
    return math.sqrt(max(0.0, share * (1.0 - share)) / samples)


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Return the share of rows of `scores` whose first largest entry is at the label."""
    return float((scores.reshape(len(labels), -1).argmax(dim=1) == labels).double().mean())
