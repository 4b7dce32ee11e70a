"""Samplers on a search of architectures, every one of which is trained."""

from __future__ import annotations

from pathlib import Path

from mase_hw._kinds import Record
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_best_so_far, new_figure
from mase_hw.experiments._subject import Subject, chosen_architecture, steps
from mase_hw.training import standard_error

# Fewer first trials by chance than Optuna's ten, which would be half of a quick run.
SAMPLERS: dict[str, Record] = {"random": {}, "grid": {}, "tpe": {"n_startup_trials": 4}}
QUICK_SPACE = {"architecture": {"first": [4, 8, 16, 32, 64], "second": [4, 8, 16, 32, 64]}}
SPACE = {
    "architecture": {
        "layers": [1, 2, 4],
        "heads": [2, 4, 8],
        "hidden": [128, 256],
        "intermediate": [256, 512, 1024],
    }
}
QUICK: Record = {
    "trials": 20,
    "training": {"epochs": 8, "learning_rate": 3e-3},
    "space": QUICK_SPACE,
}
FULL: Record = {
    "trials": 30,
    "training": {"epochs": 1, "learning_rate": 3e-4},
    "space": SPACE,
}


class Samplers(Experiment):
    """Best accuracy on validation samples so far, one curve a sampler."""

    name = "samplers"
    title = "best accuracy so far against trial: random, grid, TPE"

    def run(self, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
        subject = Subject.load("digits-mlp" if quick else "bert-tiny", seed=self.seed)
        settings = QUICK if quick else FULL
        advance = steps(progress, len(SAMPLERS) * settings["trials"])
        curves, rows = {}, []
        for name, options in SAMPLERS.items():
            config = settings | {"sampler": name, "sampler_options": options}
            found = subject.search(config, folder / name, advance)
            best = found.result.best[0]
            curves[name] = found.accuracies
            chosen = chosen_architecture(best)
            accuracy = 100 * best.metrics["accuracy"]
            rows.append((name, accuracy, best.number + 1, len(found.result.failed), chosen))
        count = len(subject.split.validation_labels)
        error = standard_error(max(curve[-1] for curve in curves.values()), count)
        figure, (axes,) = new_figure()
        draw_best_so_far(axes, curves, count, f"{subject.name}, {count} validation samples")
        note = (
            f"{subject.name}: architectures of {settings['space']['architecture']}, each trained "
            f"{settings['training']['epochs']} epochs on {len(subject.split.train_labels):,} "
            f"samples; {count} validation samples, standard error {100 * error:.1f} points (the "
            "bands)"
        )
        return Outcome(
            ("sampler", "best, %", "in trial", "failed", "architecture"), rows, figure, note
        )
