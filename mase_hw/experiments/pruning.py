"""Sparsity against accuracy: random and by magnitude, before and after training again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mase_hw.emit.flow import canonicalize
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import label, new_figure
from mase_hw.experiments._subject import Subject, mean_and_error, steps
from mase_hw.graph import MaseGraph
from mase_hw.passes.compression.prune import prune_transform_pass
from mase_hw.training import Trainer, evaluate

QUICK_MODEL, MODEL = "digits-mlp", "bert-tiny"
SPARSITIES = tuple(round(0.1 * tenth, 1) for tenth in range(1, 10))
CRITERIA = ("random", "l1")
SEEDS = (0, 1, 2)
QUICK_TRAINER = Trainer(epochs=4, learning_rate=1e-3)
TRAINER = Trainer(epochs=1, learning_rate=1e-4)


class Pruning(Experiment):
    """Unstructured zeros in every weight, each tensor by itself, on the test samples."""

    name = "pruning"
    title = "sparsity 0.1..0.9 against accuracy, before and after retraining"

    def run(self, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
        subject = Subject.load(QUICK_MODEL if quick else MODEL, seed=self.seed)
        graph = canonicalize(subject.mg)
        trainer = QUICK_TRAINER if quick else TRAINER
        advance = steps(progress, len(SPARSITIES) * len(CRITERIA) * len(SEEDS))
        rows = []
        for sparsity in SPARSITIES:
            row = []
            for criterion in CRITERIA:
                before, after = [], []
                for seed in (self.seed + step for step in SEEDS):
                    pair = prune_and_retrain(
                        subject, graph, sparsity, criterion, replace(trainer, seed=seed)
                    )
                    before.append(100 * pair[0])
                    after.append(100 * pair[1])
                    advance()
                row += [mean_and_error(before), mean_and_error(after)]
            rows.append(row)
        figure, (axes,) = new_figure()
        for index, criterion in enumerate(CRITERIA):
            for shift, when, style in ((0, "pruned", "--"), (1, "retrained", "-")):
                column = 2 * index + shift
                axes.errorbar(
                    SPARSITIES,
                    [row[column][0] for row in rows],
                    [row[column][1] for row in rows],
                    color=f"C{index}",
                    linestyle=style,
                    marker="os"[index],
                    markersize=4,
                    capsize=3,
                    label=f"{criterion}, {when}",
                )
        axes.legend()
        count = len(subject.split.test_labels)
        label(axes, f"{subject.name}, {count} test samples", "sparsity", "accuracy, %")
        columns = ["sparsity"]
        for criterion in CRITERIA:
            columns += [f"{criterion}, %", f"{criterion} retrained, %"]
        cells: list[tuple[str | float, ...]] = [
            (sparsity, *(f"{mean:.1f} ± {error:.1f}" for mean, error in row))
            for sparsity, row in zip(SPARSITIES, rows, strict=True)
        ]
        note = (
            f"{subject.name}: mean ± standard error of {len(SEEDS)} seeds, {count} test "
            f"samples; retrained {trainer.epochs} epochs. The seed draws the random mask and the "
            "order of the samples: l1 before retraining does not depend on it"
        )
        return Outcome(columns, cells, figure, note)


def prune_and_retrain(
    subject: Subject, graph: MaseGraph, sparsity: float, criterion: str, trainer: Trainer
) -> tuple[float, float]:
    """Return the accuracy on the test samples before and after training."""
    split = subject.split
    mg, _ = prune_transform_pass(
        graph, {"sparsity": sparsity, "criterion": criterion, "seed": trainer.seed}
    )
    before = evaluate(mg, split.test_inputs, split.test_labels)
    trainer.fit(mg, split.train_inputs, split.train_labels)
    return before, evaluate(mg, split.test_inputs, split.test_labels)
