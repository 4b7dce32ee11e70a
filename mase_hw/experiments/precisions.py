"""Every number format, each with a search of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from mase_hw._kinds import Record, Table
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import label, new_figure
from mase_hw.experiments._formats import WIDTHS, entry
from mase_hw.experiments._subject import Subject, steps
from mase_hw.experiments.mixed_precision import linear_layers
from mase_hw.formats import formats
from mase_hw.training import standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE_INCHES = 0.24
Row = tuple[str, float, int, float]


class Precisions(Experiment):
    """The best accuracy of every format, and its bits; formats without a width have one point."""

    name = "precisions"
    title = "best accuracy so far and bits per weight of every format of the registry"
    settings: ClassVar[Table] = {"trials": 8, "train": 512, "validation": 500, "epochs": 1}
    quick: ClassVar[Table] = {"trials": 3, "validation": 300, "epochs": 0}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        counts = {key: size[key] for key in ("train", "validation")}
        subject = Subject.load("bert-tiny", **counts, seed=self.seed)
        advance = steps(progress, len(formats()) * size["trials"])
        curves, rows = {}, []
        for name in formats():
            values = entry([name])
            config: Record = {"trials": size["trials"], "space": linear_layers(values)}
            # A format without a width has one point, which a grid of one visits.
            config["sampler"] = "tpe" if "weight_width" in values else "grid"
            if size["epochs"]:
                config["finetuning"] = {"epochs": size["epochs"], "learning_rate": 1e-4}
            found = subject.search(config, folder / name, advance)
            curve, best = found.accuracies, found.result.best[0]
            curves[name] = curve + curve[-1:] * (size["trials"] - len(curve))
            accuracy, bits = 100 * best.metrics["accuracy"], best.metrics["average_bits"]
            rows.append((name, accuracy, best.number + 1, bits))
            for _ in range(size["trials"] - len(curve)):
                advance()
        rows.sort(key=lambda row: -row[1])
        count = len(subject.split.validation_labels)
        error = 100 * standard_error(rows[0][1] / 100, count)
        title = f"{subject.name}, {count} validation samples, ±{error:.1f} points"
        figure = draw(rows, [curves[row[0]] for row in rows], title)
        note = (
            f"{subject.name}: widths of {WIDTHS} for data and weight of every linear layer, biases "
            f"and sums fixed point of 8 and 16; standard error of the best {error:.1f} points"
        )
        return Outcome(("format", "best, %", "in trial", "bits per weight"), rows, figure, note)


def draw(rows: Sequence[Row], curves: Sequence[Sequence[float]], title: str) -> Figure:
    """Draw a line a format: its best accuracy after each trial as a color, and in the end."""
    figure, (axes,) = new_figure()
    figure.set_figheight(1.5 + LINE_INCHES * len(rows))
    shares = [[100 * value for value in curve] for curve in curves]
    image = axes.imshow(shares, aspect="auto", interpolation="nearest")
    figure.colorbar(image, ax=axes, label="best accuracy so far, %", location="bottom")
    lines = range(len(rows))
    axes.grid(visible=False)
    axes.set_xticks(range(len(curves[0])), [str(trial + 1) for trial in range(len(curves[0]))])
    axes.set_yticks(lines, [row[0] for row in rows])
    ends = axes.secondary_yaxis("right")
    ends.set_yticks(lines, [f"{row[1]:.1f} % at {row[3]:.3g} bits" for row in rows])
    label(axes, title, "trial", "")
    return figure
