"""What a training records: loss and metric of every epoch, and which epoch was kept."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Epoch:
    """One pass over the samples.

    Attributes:
        number: from 1.
        loss: mean over the samples, while they were trained on.
        metric: on the validation samples; None without any.
    """

    number: int
    loss: float
    metric: float | None = None


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

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable description."""
        return {
            "metric": self.metric,
            "best": self.best,
            "epochs": [vars(epoch) for epoch in self.epochs],
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> History:
        """Return what `to_dict` described."""
        return cls([Epoch(**item) for item in entry["epochs"]], entry["metric"], entry["best"])

    def save(self, path: str | Path) -> Path:
        """Write a table: epoch, loss, metric, and whether the epoch was kept."""
        target = Path(path)
        with target.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(("epoch", "loss", f"validation_{self.metric}", "kept"))
            for item in self.epochs:
                metric = "" if item.metric is None else item.metric
                table.writerow((item.number, item.loss, metric, item.number == self.best))
        return target

    def draw(self, path: str | Path) -> list[Path]:
        """Draw loss and metric over epochs, the kept one marked, as `path.png` and `path.svg`."""
        from mase_hw._drawing import legend_above, save_figure, whole_ticks

        def drawing(axes: Any) -> None:
            numbers = [item.number for item in self.epochs]
            axes.plot(numbers, [item.loss for item in self.epochs], "o-", label="loss, training")
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
