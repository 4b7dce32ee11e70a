"""What a training records: loss and metric of every epoch, and which epoch was kept."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mase_hw._kinds import Table
from mase_hw._results import result_file


@dataclass(frozen=True)
class Epoch:
    """One pass over the samples.

    Attributes:
        number: from 1.
        loss: mean over the samples, while they were trained on.
        metric: on the validation samples; None without any.
        validation_loss: mean over the validation samples; None without any.
        steps: the loss of every step.
    """

    number: int
    loss: float
    metric: float | None = None
    validation_loss: float | None = None
    steps: Sequence[float] = ()


@dataclass(frozen=True)
class History:
    """The epochs of a training, those of an earlier run that it went on from included.

    Attributes:
        epochs: in order.
        metric: name of the metric.
        best: number of the epoch whose weights the model has, that of the best metric; None
            where the last epoch's were kept.
    """

    epochs: Sequence[Epoch] = ()
    metric: str = "accuracy"
    best: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serializable description."""
        return {
            "metric": self.metric,
            "best": self.best,
            "epochs": [vars(epoch) for epoch in self.epochs],
        }

    @classmethod
    def from_dict(cls, entry: Table) -> History:
        """History from the output of `to_dict`."""
        return cls([Epoch(**item) for item in entry["epochs"]], entry["metric"], entry["best"])

    def save(self, path: str | Path) -> Path:
        """Write a table: epoch, losses, metric, and whether the epoch was kept."""
        target = Path(path)
        with result_file(target) as path, path.open("w", newline="") as file:
            table = csv.writer(file)
            named = ("epoch", "loss", "validation_loss", f"validation_{self.metric}", "kept")
            table.writerow(named)
            for item in self.epochs:
                measured = (item.validation_loss, item.metric)
                values = ("" if value is None else value for value in measured)
                table.writerow((item.number, item.loss, *values, item.number == self.best))
        return target

    def draw(self, path: str | Path) -> list[Path]:
        """Draw losses and metric over epochs, the kept one marked, as `path.png` and `path.svg`.

        The loss of every step is a thin line; an epoch's steps lie before its number.
        """
        from mase_hw._drawing import legend_above, save_figure, whole_ticks

        def drawing(axes: Any) -> None:
            numbers = [item.number for item in self.epochs]
            self._draw_losses(axes)
            axes.set_xlabel("epoch")
            axes.set_ylabel("loss")
            whole_ticks(axes, numbers)
            handles, labels = axes.get_legend_handles_labels()
            measured = [item for item in self.epochs if item.metric is not None]
            if measured:
                other = axes.twinx()
                name = self.metric.replace("_", " ")
                (line,) = other.plot(
                    [item.number for item in measured],
                    [item.metric for item in measured],
                    "s--",
                    color="C1",
                    label=f"{name}, validation",
                )
                other.set_ylabel(name)
                handles.append(line)
                labels.append(line.get_label())
            if self.best:
                handles.append(axes.axvline(self.best, color="C7", linestyle=":"))
                labels.append("kept")
            legend_above(axes, handles, labels)

        return save_figure(Path(path), drawing)

    def _draw_losses(self, axes: Any) -> None:
        steps = [
            (item.number - 1 + (place + 1) / len(item.steps), loss)
            for item in self.epochs
            for place, loss in enumerate(item.steps)
        ]
        if steps:
            style = {"color": "C0", "alpha": 0.35, "linewidth": 0.8}
            axes.plot(*zip(*steps, strict=True), label="loss, steps", **style)
        numbers = [item.number for item in self.epochs]
        axes.plot(numbers, [item.loss for item in self.epochs], "o-", color="C0", label="loss")
        held = [item for item in self.epochs if item.validation_loss is not None]
        if held:
            losses = [item.validation_loss for item in held]
            numbers = [item.number for item in held]
            axes.plot(numbers, losses, "^-", color="C2", label="loss, validation")
