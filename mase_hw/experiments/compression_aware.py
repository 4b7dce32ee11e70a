"""Searching architectures by the accuracy that is left after compression."""

from __future__ import annotations

from pathlib import Path

from mase_hw._kinds import Record
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_best_so_far, new_figure
from mase_hw.experiments._subject import Subject, chosen_architecture, steps
from mase_hw.passes.formats.report_quantization import FLOAT_BITS
from mase_hw.training import standard_error

QUICK: Record = {
    "trials": 10,
    "training": {"epochs": 8, "learning_rate": 3e-3},
    "space": {"architecture": {"first": [16, 32, 64], "second": [8, 16, 32, 64]}},
}
FULL: Record = {
    "trials": 30,
    "training": {"epochs": 1, "learning_rate": 3e-4},
    "space": {"architecture": {"layers": [1, 2, 4], "heads": [2, 4], "intermediate": [256, 512]}},
}
FOUR_BITS = {
    "by": "type",
    "default": {"config": {"name": None}},
    "linear": {"config": {"name": "fixed", "data_in_width": 4, "weight_width": 4, "bias_width": 8}},
}
SPARSITY = 0.5
SAMPLER = {"sampler": "tpe", "sampler_options": {"n_startup_trials": 4}}


class CompressionAware(Experiment):
    """No compression, compression after training, and training once more after it."""

    name = "compression-aware"
    title = "best so far: no compression, compressed, compressed and trained again"

    def run(self, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
        subject = Subject.load("digits-mlp" if quick else "bert-tiny", seed=self.seed)
        settings = (QUICK if quick else FULL) | SAMPLER
        space = settings["space"] | {
            "quantize": FOUR_BITS,
            "prune": {"sparsity": SPARSITY, "criterion": "l1"},
        }
        again = settings["training"] | {
            "epochs": 6 if quick else 1,
            "learning_rate": settings["training"]["learning_rate"] / 3,
        }
        variants = {
            "no compression": settings,
            "compressed": settings | {"space": space},
            "compressed, trained again": settings | {"space": space, "finetuning": again},
        }
        advance = steps(progress, len(variants) * settings["trials"])
        curves, rows = {}, []
        for name, config in variants.items():
            found = subject.search(config, folder / name.replace(", ", "-"), advance)
            best = found.result.best[0]
            curves[name] = found.accuracies
            bits = best.metrics["average_bits"] or FLOAT_BITS
            chosen = chosen_architecture(best)
            rows.append((name, 100 * best.metrics["accuracy"], best.number + 1, bits, chosen))
        count = len(subject.split.validation_labels)
        error = standard_error(curves["no compression"][-1], count)
        figure, (axes,) = new_figure()
        draw_best_so_far(axes, curves, count, f"{subject.name}, {count} validation samples")
        note = (
            f"{subject.name}: architectures of {settings['space']['architecture']}; compression "
            f"is fixed point of 4 bits and l1 sparsity {SPARSITY}; {count} validation samples, "
            f"standard error {100 * error:.1f} points (the bands)"
        )
        columns = ("search", "best, %", "in trial", "bits per weight", "architecture")
        return Outcome(columns, rows, figure, note)
