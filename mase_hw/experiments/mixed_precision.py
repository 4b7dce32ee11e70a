"""Width and fraction of every linear layer on its own."""

from __future__ import annotations

from pathlib import Path

from mase_hw._kinds import Record
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_best_so_far, new_figure
from mase_hw.experiments._subject import Subject, steps
from mase_hw.training import evaluate, standard_error

WIDTHS, FRACTIONS = [8, 16, 32], [2, 4, 8]
ENTRY: dict[str, object] = {
    "name": "fixed",
    **{
        f"{operand}_{key}": values
        for operand in ("data_in", "weight")
        for key, values in (("width", WIDTHS), ("frac_width", FRACTIONS))
    },
    "bias_width": 8,
}
SPACE = {
    "quantize": {
        "by": "type",
        "default": {"config": {"name": None}},
        "linear": {"config": ENTRY},
    }
}
QUICK_SAMPLES = 400
# Fewer first trials by chance than Optuna's ten, which would be all of a quick run.
SAMPLERS: dict[str, Record] = {"random": {}, "tpe": {"n_startup_trials": 4}}


class MixedPrecision(Experiment):
    """Best accuracy so far of BERT-tiny, quantised without training."""

    name = "mixed-precision"
    title = "width in {8, 16, 32} and fraction in {2, 4, 8} per layer"

    def run(self, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
        subject = Subject.load(
            "bert-tiny", validation=QUICK_SAMPLES if quick else None, seed=self.seed
        )
        trials = 12 if quick else 60
        advance = steps(progress, len(SAMPLERS) * trials)
        curves, rows = {}, []
        for name, options in SAMPLERS.items():
            config = {
                "sampler": name,
                "sampler_options": options,
                "trials": trials,
                "space": SPACE,
            }
            found = subject.search(config, folder / name, advance)
            best = found.result.best[0]
            curves[name] = found.accuracies
            rows.append(
                (
                    name,
                    100 * found.accuracies[0],
                    100 * best.metrics["accuracy"],
                    best.number + 1,
                    best.metrics["average_bits"],
                )
            )
        split = subject.split
        count = len(split.validation_labels)
        exact = evaluate(subject.mg, split.validation_inputs, split.validation_labels)
        error = standard_error(exact, count)
        figure, (axes,) = new_figure()
        axes.axhline(100 * exact, color="gray", linestyle="--", label="float32")
        draw_best_so_far(axes, curves, count, f"{subject.name}, {count} validation samples")
        note = (
            f"{subject.name}, not trained again: float32 {100 * exact:.1f} %; width and fraction "
            f"of data and weight of each linear layer; {count} validation samples, standard error "
            f"{100 * error:.1f} points (the bands): the best of several on the same samples is "
            "flattered"
        )
        columns = ("sampler", "first trial, %", "best, %", "in trial", "bits per weight")
        return Outcome(columns, rows, figure, note)
