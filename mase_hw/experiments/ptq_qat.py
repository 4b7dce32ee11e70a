"""Width against accuracy, after quantisation alone and after training with it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mase_hw._kinds import Record, Table
from mase_hw.emit.flow import quantize
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_accuracies, label, new_figure
from mase_hw.experiments._subject import Subject, steps
from mase_hw.training import standard_error

MODEL = "bert-tiny"


class PtqQat(Experiment):
    """Fixed point of 4 to 32 bits in the linear layers of BERT-tiny, on the test samples."""

    name = "ptq-qat"
    title = "fixed width 4..32 against accuracy: quantized, and trained quantized"
    settings: ClassVar[Table] = {
        "widths": list(range(4, 33, 2)),
        "train": 2048,
        "test": 2000,
        "epochs": 1,
    }
    quick: ClassVar[Table] = {"train": 256, "test": 500}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        subject = Subject.load(MODEL, train=size["train"], test=size["test"], seed=self.seed)
        advance = steps(progress, 2 * len(size["widths"]))
        exact = subject.accuracy(subject.mg)
        curves: dict[str, list[float]] = {"PTQ": [], "QAT": []}
        for width in size["widths"]:
            mg = quantize(subject.mg, linear_layers(width), data=[subject.split.train_inputs[:256]])
            curves["PTQ"].append(subject.accuracy(mg))
            advance()
            subject.fit(mg, epochs=size["epochs"], learning_rate=1e-4)
            curves["QAT"].append(subject.accuracy(mg))
            advance()
        error = standard_error(exact, size["test"])
        knees = {
            name: knee(size["widths"], values, max(*values, exact) - error)
            for name, values in curves.items()
        }
        figure, (axes,) = new_figure()
        draw_accuracies(axes, size["widths"], curves, size["test"])
        for index, (name, width) in enumerate(knees.items()):
            axes.axvline(width, color=f"C{index}", linestyle=":", label=f"knee of {name}")
        axes.axhline(100 * exact, color="gray", linestyle="--", label="float32")
        axes.set_xticks(size["widths"])
        axes.legend(ncols=2)
        label(axes, f"{MODEL}, {size['test']} test samples", "width, bits", "accuracy, %")
        note = (
            f"{MODEL} on snippets: float32 {100 * exact:.1f} %, standard error {100 * error:.1f} "
            f"points; knee, the least width within one of the best: PTQ {knees['PTQ']}, QAT "
            f"{knees['QAT']} bits"
        )
        rows = [
            (width, *(100 * value for value in pair))
            for width, *pair in zip(size["widths"], *curves.values(), strict=True)
        ]
        return Outcome(("width", "PTQ, %", "QAT, %"), rows, figure, note)


def knee(widths: list[int], values: list[float], least: float) -> int:
    """Return the least width from which on every wider one reaches an accuracy, or the best."""
    reached = [width for width, value in zip(widths, values, strict=True) if value < least]
    wider = [width for width in widths if width > max(reached, default=0)]
    return min(wider, default=widths[values.index(max(values))])


def linear_layers(width: int) -> Record:
    """Return the configuration: linear layers of a width, biases of 8 bits at the least."""
    entry = {
        "name": "fixed",
        "data_in_width": width,
        "weight_width": width,
        "bias_width": max(width, 8),
    }
    return {"by": "type", "default": {"config": {"name": None}}, "linear": {"config": entry}}
