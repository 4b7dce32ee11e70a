"""Supervised training of any module or graph by any loss, seeded, with checkpoints.

Quantisation-aware training is this loop over a quantised graph: its forward pass rounds, its
gradients go straight through (Bengio et al. 2013, arXiv:1308.3432), and its parameters are the
graph's own.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw._checks import check_integer
from mase_hw._results import whole_file
from mase_hw.errors import ConfigError, DataError, MaseError
from mase_hw.graph import MaseGraph
from mase_hw.graph.captured import batch_size
from mase_hw.training.batches import Batch, Samples, in_order, read_inputs, size, take
from mase_hw.training.history import Epoch, History
from mase_hw.training.tasks import IGNORED, TASKS, Metric, Task, scores_of, task_of

Progress = Callable[[int, int], None]
EVALUATION_BATCH = 1024


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Attributes:
        epochs: passes over the samples.
        learning_rate: at the start.
        batch_size: samples of a step.
        seed: of the order of the samples, and of what chance decides in the model.
        progress: called with (epochs done, epochs).
        checkpoint: file, or folder, that holds the state after every epoch; training goes on from
            it.
        task: loss and metric: `classification`, `regression`, `language_modeling`,
            `masked_language_modeling`, or a `Task`.

    Raises:
        ConfigError: when a number is out of range.
    """

    epochs: int = 10
    learning_rate: float = 1e-3
    batch_size: int = 64
    seed: int = 0
    progress: Progress | None = None
    checkpoint: Path | None = None
    task: str | Task = "classification"

    def __post_init__(self) -> None:
        for name, low in (("epochs", 0), ("batch_size", 1)):
            check_integer(f"training: {name}", getattr(self, name), low)
        if not self.learning_rate > 0:
            raise ConfigError(f"training: learning_rate is {self.learning_rate!r}; allowed: > 0")
        task_of(self.task)


@dataclass(frozen=True)
class Trainer(Recipe):
    """A recipe: Adam (Kingma & Ba 2015, arXiv:1412.6980), its rate annealed to zero by a cosine.

    Examples:
        >>> model = nn.Linear(2, 2)
        >>> inputs, labels = torch.randn(8, 2), torch.tensor([0, 1] * 4)
        >>> len(Trainer(epochs=3).fit(model, inputs, labels).epochs)
        3
    """

    def fit(
        self,
        module: nn.Module,
        data: Any,
        labels: Tensor | None = None,
        validation: Any = None,
    ) -> History:
        """Train the parameters of `module` in place, in training mode; its mode is restored.

        With validation samples the weights of the best epoch are kept, else those of the last. A
        model that returns a loss of its own (the key `loss`) is trained by that.

        Args:
            module: takes a batch of inputs, returns scores, `[samples, classes]` to classify.
            data: inputs `[samples, ...]`, several as a tuple or by name, or any iterable of
                batches, see `read_batch`, that can be iterated once an epoch.
            labels: `[samples, ...]`, int64 to classify; None for batches.
            validation: (inputs, labels), or batches.

        Raises:
            DataError: for an empty data set, or a label outside the classes.
        """
        task = task_of(self.task)
        check_samples(module, data, labels, task)
        held = None if validation is None else _pair(validation)
        parameters = [item for item in module.parameters() if item.requires_grad]
        if not parameters:
            raise ConfigError("training: the model has no parameter that trains")
        optimizer = torch.optim.Adam(parameters, self.learning_rate)
        samples: Any = data if labels is None else Samples(data, labels, self.batch_size)
        batches = len(samples) if hasattr(samples, "__len__") else sum(1 for _ in samples)
        steps = max(1, self.epochs * batches)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        state = Progressed(module, task, held, {"optimizer": optimizer, "schedule": schedule})
        state.restore(self.checkpoint)
        devices = sorted({item.device.index for item in parameters if item.device.type == "cuda"})
        # The random numbers of the rest of the program stay as they were.
        with _mode(module, training=True), torch.random.fork_rng(devices=devices):
            for epoch in range(len(state.epochs), self.epochs):
                # Chance depends on the seed and the epoch's number alone: resuming repeats it.
                torch.manual_seed(self.seed * 1_000_003 + epoch)
                loss, losses = self._epoch(module, samples, epoch, task, optimizer, schedule)
                state.finish(epoch + 1, loss, losses)
                state.save(self.checkpoint)
                if self.progress:
                    self.progress(epoch + 1, self.epochs)
        return state.keep_best()

    def _epoch(
        self,
        module: nn.Module,
        samples: Any,
        epoch: int,
        task: Task,
        optimizer: torch.optim.Optimizer,
        schedule: Any,
    ) -> tuple[float, list[float]]:
        """Train on all samples once and return the mean loss, and that of every step."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        shuffled = isinstance(samples, Samples)
        batches = samples.shuffled(generator) if shuffled else in_order(samples, None, 0)
        total, count = 0.0, 0
        losses: list[float] = []
        for batch in batches:
            optimizer.zero_grad()
            loss = loss_of(module, batch, task)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise DataError(
                    f"training: the loss of epoch {epoch + 1} is {value}; try a lower learning_rate"
                )
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
            total += value * len(batch)
            count += len(batch)
            losses.append(value)
        if not count:
            raise DataError(
                f"the data set gave no sample in epoch {epoch + 1}; give an iterable that starts "
                "anew each time, such as a list or a DataLoader, not an iterator"
            )
        return total / count, losses


def mean_loss(module: nn.Module, data: object, labels: Tensor | None, task: Task) -> float:
    """Return the mean loss of samples, in evaluation mode."""
    total, count = 0.0, 0
    with torch.no_grad(), _mode(module, training=False):
        for batch in in_order(data, labels, EVALUATION_BATCH):
            total += float(loss_of(module, batch, task)) * len(batch)
            count += len(batch)
    return total / max(count, 1)


def loss_of(module: nn.Module, batch: Batch, task: Task) -> Tensor:
    """Return the loss of a batch: the model's own where it returns one, else the task's."""
    with _in_range(batch):
        outputs = _outputs(module, batch)
        own = outputs.get("loss") if hasattr(outputs, "get") else getattr(outputs, "loss", None)
        if isinstance(own, Tensor):
            return own
        if batch.labels is None:
            raise DataError("training: a batch has no labels, and the model returns no loss")
        scores = scores_of(outputs)
        return task.loss(scores, batch.labels.to(scores.device))


@contextlib.contextmanager
def _in_range(batch: Batch) -> Iterator[None]:
    """Say which whole numbers a batch holds where one of them names nothing in the model.

    Raises:
        DataError: for a label outside the classes, or a token that the model does not have.
    """
    try:
        yield
    except IndexError as error:
        named = [(f"input {number}", value) for number, value in enumerate(batch.args)]
        named += [*batch.kwargs.items(), ("labels", batch.labels)]
        ranges = [
            f"{name} from {int(value.min())} to {int(value.max())}"
            for name, value in named
            if isinstance(value, Tensor) and value.numel() and not value.is_floating_point()
        ]
        raise DataError(
            f"a batch holds a label outside the classes or a token that the model does not have "
            f"({error}): {', '.join(ranges)}"
        ) from error


def takes_labels(module: Any) -> bool:
    """True if a model has an input for labels, from which it computes a loss."""
    if isinstance(module, MaseGraph):
        return "labels" in [str(node.target) for node in module.inputs]
    call = module.forward if isinstance(module, nn.Module) else module
    return "labels" in inspect.signature(call).parameters


class Progressed:
    """Epochs of a training as they end, and the weights of the best one.

    Args:
        module: that is trained.
        task: its metric tells which epoch is best.
        held: samples to validate on.
        parts: what a checkpoint holds beside the module, by name.
    """

    def __init__(
        self,
        module: nn.Module,
        task: Task,
        held: tuple[Any, Tensor | None] | None,
        parts: Mapping[str, Any] | None = None,
    ) -> None:
        self._module, self._task, self._held = module, task, held
        self._parts = {"model": module, **(parts or {})}
        self._best: tuple[int, dict[str, Tensor]] | None = None
        self.epochs: list[Epoch] = []

    def finish(self, number: int, loss: float, steps: Sequence[float] = ()) -> None:
        """Validate and note an epoch, and its weights where they are the best so far."""
        metric = held_loss = None
        if self._held is not None:
            metric = evaluate(self._module, *self._held, metric=self._task.metric)
            held_loss = mean_loss(self._module, *self._held, self._task)
            before = [item.metric for item in self.epochs if item.metric is not None]
            sign = 1.0 if self._task.metric.direction == "maximize" else -1.0
            if all(sign * metric > sign * item for item in before):
                weights = self._module.state_dict()
                copies = {key: value.detach().clone() for key, value in weights.items()}
                self._best = number, copies
        self.epochs.append(Epoch(number, loss, metric, held_loss, steps))

    def keep_best(self) -> History:
        """Give the module the weights of its best epoch; return the record."""
        if self._best is None:
            return History(self.epochs, self._task.metric.name)
        self._module.load_state_dict(self._best[1])
        return History(self.epochs, self._task.metric.name, self._best[0])

    def save(self, path: Path | None) -> None:
        """Write a checkpoint where a path is asked for."""
        if path is None:
            return
        state = {name: part.state_dict() for name, part in self._parts.items()}
        state |= {"epochs": [vars(epoch) for epoch in self.epochs], "best": self._best}
        with whole_file(path) as file:
            torch.save(state, file)

    def restore(self, path: Path | None) -> None:
        """Go on from a checkpoint where there is one."""
        if path is None or not path.exists():
            return
        try:
            state = torch.load(path, weights_only=True)
            for name, part in self._parts.items():
                part.load_state_dict(state[name])
            self.epochs = [Epoch(**item) for item in state["epochs"]]
            self._best = state["best"]
        except Exception as error:
            raise DataError(f"{path} is no checkpoint of this model: {error}") from error


def check_samples(
    module: nn.Module, data: Any, labels: Tensor | None, task: str | Task = "classification"
) -> None:
    """Refuse samples that a model cannot be trained or measured on, as far as one batch shows.

    Raises:
        DataError: for an empty data set, samples of another shape, or a label outside the classes.
    """
    if labels is None:
        first = next(in_order(data, None, 0), None)
        if first is None:
            raise DataError("the data set is empty; give at least one batch")
    else:
        if len(labels) == 0 or size(data) == 0:
            raise DataError("the data set is empty; give at least one sample")
        if size(data) != len(labels):
            raise DataError(f"the data set has {size(data)} samples and {len(labels)} labels")
        rows = slice(_fixed_rows(module) or 2)
        first = Batch.of(take(data, rows), labels[rows])
    try:
        with torch.no_grad(), _mode(module, training=False), _in_range(first):
            scores = scores_of(_outputs(module, first))
    except (RuntimeError, TypeError, MaseError) as error:
        if isinstance(error, DataError):
            raise
        fixed = _fixed_rows(module)
        told = f"; its code fixes the batch: give batches of {fixed} samples" if fixed else ""
        raise DataError(
            f"samples of shape {_shapes(first)} do not fit the model: {error}{told}"
        ) from error
    wanted = first.labels if labels is None else labels
    if wanted is None or not task_of(task).classes:
        return
    counted = wanted[wanted != IGNORED]
    if not counted.numel():
        return
    low, high = int(counted.min()), int(counted.max())
    classes = int(scores.shape[-1])
    if low < 0 or high >= classes:
        outside = low if low < 0 else high
        raise DataError(f"label {outside} is outside the classes 0 to {classes - 1} of the model")


def _fixed_rows(module: Any) -> int | None:
    """Return the only size that a batch of a graph may have; None where any will do."""
    if not isinstance(module, MaseGraph) or module.batched:
        return None
    return batch_size(module.example_inputs)


def _outputs(module: object, batch: Batch) -> object:
    """Return a model's outputs; it gets labels where it has an input for them."""
    if batch.labels is not None and takes_labels(module):
        batch = Batch(batch.args, {**batch.kwargs, "labels": batch.labels}, batch.labels)
    return batch.run(module)


def _shapes(batch: Batch) -> str:
    inputs = [("", value) for value in batch.args]
    inputs += [(f"{name} ", value) for name, value in batch.kwargs.items()]
    return ", ".join(
        f"{name}{tuple(value.shape[1:])}" for name, value in inputs if isinstance(value, Tensor)
    )


def evaluate(
    module: object,
    data: object,
    labels: Tensor | None = None,
    metric: str | Metric | Callable[[Tensor, Tensor], float] = "accuracy",
) -> float:
    """Return a figure of merit of a model, in evaluation mode.

    Args:
        module: a module or a function from inputs to outputs.
        data: inputs `[samples, ...]`, or any iterable of batches, see `read_batch`.
        labels: of the inputs; None for batches.
        metric: `accuracy`, the share of samples whose largest score is that of their label;
            `perplexity`, `mean_squared_error`; or a function of all scores and all labels.

    Raises:
        DataError: for an empty data set, or a metric that is no number.
    """
    if labels is not None and len(labels) == 0:
        raise DataError("the data set is empty; give at least one sample")
    metric = metric_of(metric) if isinstance(metric, str) else metric
    total, count = 0.0, 0
    parts: list[tuple[Tensor, Tensor]] = []
    with torch.no_grad(), _mode(module, training=False):
        for batch in in_order(data, labels, EVALUATION_BATCH):
            if batch.labels is None:
                raise DataError("a batch to measure on has no labels")
            with _in_range(batch):
                scores = scores_of(_outputs(module, batch))
            wanted = batch.labels.to(scores.device)
            if isinstance(metric, Metric):
                sums, terms = metric.measure(scores, wanted)
                total, count = total + sums, count + terms
            else:
                parts.append((scores.cpu(), wanted.cpu()))
                count += len(batch)
    if not count:
        raise DataError("the data set is empty; give at least one sample")
    if isinstance(metric, Metric):
        figure, name = metric.finish(total / count), metric.name
    else:
        columns = [torch.cat(column) for column in zip(*parts, strict=True)]
        figure, name = float(metric(*columns)), getattr(metric, "__name__", "the metric")
    if math.isnan(figure):
        raise DataError(f"{name} is not a number on these samples")
    return figure


def metric_of(name: str) -> Metric:
    """Return a metric by its name.

    Raises:
        ConfigError: when there is none.
    """
    metrics = {task.metric.name: task.metric for task in reversed(list(TASKS.values()))}
    if name not in metrics:
        raise ConfigError(f"no metric is called {name!r}; known: {', '.join(sorted(metrics))}")
    return metrics[name]


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Return the share of rows of `scores` whose first largest entry is at the label."""
    return float((scores.reshape(len(labels), -1).argmax(dim=1) == labels).double().mean())


def _pair(validation: Any) -> tuple[object, Tensor | None]:
    pair = isinstance(validation, tuple) and len(validation) == 2
    if pair and isinstance(validation[1], Tensor):
        return read_inputs(validation[0]), validation[1]
    return validation, None


@contextlib.contextmanager
def _mode(module: object, *, training: bool) -> Iterator[None]:
    """Put a module into a mode, and restore the mode of each of its parts."""
    if not isinstance(module, nn.Module):
        yield
        return
    modes = {part: part.training for part in module.modules()}
    try:
        module.train(training)
        yield
    finally:
        module.train(modes[module])
        for part, mode in modes.items():
            part.training = mode
