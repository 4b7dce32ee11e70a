"""Width and fraction of every linear layer on its own."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mase_hw._kinds import Record, Table
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_best_so_far, new_figure
from mase_hw.experiments._subject import Subject, layer_entries, steps
from mase_hw.training import evaluate, standard_error

# Fewer first trials by chance than Optuna's ten, which would be half of a short run.
SAMPLERS: dict[str, Record] = {"random": {}, "tpe": {"n_startup_trials": 4}}


class MixedPrecision(Experiment):
    """Best accuracy so far of BERT-tiny, quantised without training."""

    name = "mixed-precision"
    title = "width and fraction by layer: best accuracy so far, and what each layer took"
    settings: ClassVar[Table] = {
        "trials": 100,
        "validation": 1000,
        "widths": [8, 16, 32],
        "fractions": [2, 4, 8],
    }
    quick: ClassVar[Table] = {"trials": 20, "validation": 400}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        subject = Subject.load("bert-tiny", validation=size["validation"], seed=self.seed)
        advance = steps(progress, len(SAMPLERS) * size["trials"])
        entry = {"name": ["fixed", "none"], "bias_width": 8}
        for operand in ("data_in", "weight"):
            entry[f"{operand}_width"] = size["widths"]
            entry[f"{operand}_frac_width"] = size["fractions"]
        config: Record = {"trials": size["trials"], "space": linear_layers(entry)}
        curves, told, rows = {}, [], []
        for name, options in SAMPLERS.items():
            sampled = config | {"sampler": name, "sampler_options": options}
            found = subject.search(sampled, folder / name, advance)
            best = found.result.best[0]
            curves[name] = found.accuracies
            told.append(
                f"{name} {100 * best.metrics['accuracy']:.1f} % in trial {best.number + 1} at "
                f"{best.metrics['average_bits']:.1f} bits a weight"
            )
            for layer, (formats, fields) in layer_entries(best.config).items():
                rows.append((name, layer, formats, *map(fields, ("data_in", "weight"))))
        split = subject.split
        count = len(split.validation_labels)
        exact = evaluate(subject.mg, split.validation_inputs, split.validation_labels)
        figure, (axes,) = new_figure()
        axes.axhline(100 * exact, color="gray", linestyle="--", label="float32")
        draw_best_so_far(axes, curves, count, f"{subject.name}, {count} validation samples")
        note = (
            f"{subject.name}, not trained again: float32 {100 * exact:.1f} %, best "
            f"{', '.join(told)}; standard error {100 * standard_error(exact, count):.1f} points "
            "(the bands): the best of several on the same samples is flattered"
        )
        columns = ("sampler", "layer", "format", "data, width.fraction", "weight")
        return Outcome(columns, rows, figure, note)


def linear_layers(entry: Record) -> Record:
    """Return the space of an entry for linear layers, the rest in real numbers."""
    config = {"by": "type", "default": {"config": {"name": None}}, "linear": {"config": entry}}
    return {"quantize": config}
