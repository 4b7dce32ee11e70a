"""Accuracy by the number of epochs, and the loss of each step."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mase_hw._kinds import Table
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_accuracies, new_figure
from mase_hw.experiments._subject import Subject, steps
from mase_hw.models.builder import build

MODEL = "bert-tiny"


class Epochs(Experiment):
    """The pretrained encoder with a new classifier, trained anew for every number of epochs."""

    name = "epochs"
    title = "accuracy by number of epochs, and the loss of every step"
    settings: ClassVar[Table] = {"epochs": [1, 2, 3, 5, 8], "train": 4096, "test": 2000}
    quick: ClassVar[Table] = {"epochs": [1, 2, 3, 5], "train": 1024, "test": 1000}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        subject = Subject.load(MODEL, train=size["train"], test=size["test"], seed=self.seed)
        advance = steps(progress, len(size["epochs"]))
        figure, (above, below) = new_figure(2)
        found, rows = [], []
        for count in size["epochs"]:
            module = build(MODEL, {})
            history = subject.fit(module, epochs=count, learning_rate=3e-4)
            found.append(subject.accuracy(module))
            losses = [loss for epoch in history.epochs for loss in epoch.steps]
            rows.append((count, len(losses), losses[0], history.epochs[-1].loss, 100 * found[-1]))
            advance()
        above.plot(range(1, len(losses) + 1), losses, linewidth=0.8)
        above.set(title=f"training for {count} epochs", xlabel="step", ylabel="loss")
        draw_accuracies(below, size["epochs"], {MODEL: found}, size["test"])
        below.set_xticks(size["epochs"])
        below.set(
            title=f"{MODEL}, {size['test']} test samples", xlabel="epochs", ylabel="accuracy, %"
        )
        note = f"{MODEL} on snippets, pretrained; each training anneals its rate to zero"
        columns = ("epochs", "steps", "first loss", "loss of the last epoch", "accuracy, %")
        return Outcome(columns, rows, figure, note)
