"""Number formats by layer of BERT: widths, all formats at once, and each format by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from mase_hw._kinds import Record, Table
from mase_hw.errors import FormatError
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_best_so_far, label, new_figure
from mase_hw.experiments._subject import Subject, layer_entries, steps
from mase_hw.formats import format_class, formats
from mase_hw.training import evaluate, standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = "bert-tiny"
WIDTHS = [4, 6, 8]
# What the narrowest width leaves for an exponent beside a mantissa.
EXPONENT_WIDTH = 2
BIASES = [1, 3, 5]
# Sums are rounded to a format where the next layer reads them; one or two bits would tie.
FIXED = {"data_out_name": "fixed", "data_out_width": 16, "bias_name": "fixed", "bias_width": 8}


def entry(names: Sequence[str]) -> Record:
    """Return the entry in which a layer takes one of several formats, and its widths."""
    small = [name for name in names if not _has_every_width(name)]
    # Nothing else moves the range of these formats to that of the weights.
    moved = [name for name in small if "exponent_bias" in format_class(name).field_names()]
    found: Record = {"name": list(names), **FIXED}
    for operand in ("data_in", "weight"):
        if any(map(_has_width, names)):
            found[f"{operand}_width"] = WIDTHS
        if small:
            given = {"choices": [EXPONENT_WIDTH], "when": {"name": small}}
            found[f"{operand}_exponent_width"] = given
    if moved:
        found["weight_exponent_bias"] = {"choices": BIASES, "when": {"name": moved}}
    return found


def _has_every_width(name: str) -> bool:
    """Return true when the widths leave room for the format's other fields as they are."""
    try:
        format_class(name).fit(-1.0, 1.0, **({"width": min(WIDTHS)} if _has_width(name) else {}))
    except FormatError:
        return False
    return True


def _has_width(name: str) -> bool:
    return "width" in format_class(name).field_names()


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
        subject = Subject.load(MODEL, validation=size["validation"], seed=self.seed)
        advance = steps(progress, len(SAMPLERS) * size["trials"])
        values = {"name": "fixed", "bias_width": 8}
        for operand in ("data_in", "weight"):
            values[f"{operand}_width"] = size["widths"]
            values[f"{operand}_frac_width"] = size["fractions"]
        config: Record = {"trials": size["trials"], "space": linear_layers(values)}
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
            rows += [(name, *item) for item in layer_entries(best.config)]
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


class LayerFormats(Experiment):
    """Formats and widths by layer of BERT-tiny by TPE, quantised without training."""

    name = "layer-formats"
    title = "all formats in one search: which layer takes which"
    settings: ClassVar[Table] = {"trials": 200, "validation": 500, "best": 10}
    quick: ClassVar[Table] = {"trials": 40, "validation": 300}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        subject = Subject.load(MODEL, validation=size["validation"], seed=self.seed)
        advance = steps(progress, size["trials"])
        names = list(formats())
        space = linear_layers(entry(names))
        config: Record = {"trials": size["trials"], "sampler": "tpe", "space": space}
        found = subject.search(config, folder / "search", advance)
        best = found.result.best[0]
        taken = layer_entries(best.config)
        counts = Counter(
            item[:2]
            for configuration in found.configurations(size["best"])
            for item in layer_entries(configuration)
        )
        rows = [(*item, counts[item[:2]]) for item in taken]
        figure, (axes,) = new_figure()
        figure.set_figheight(1.4 * figure.get_figheight())
        shares = [[counts[item[0], name] for name in names] for item in taken]
        image = axes.imshow(shares, aspect="auto", cmap="Blues")
        figure.colorbar(image, ax=axes, label=f"of the {size['best']} best trials")
        chosen = [names.index(row[1]) for row in rows]
        axes.plot(chosen, range(len(rows)), "r.", label="best trial")
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(rows)), [row[0] for row in rows])
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1))
        accuracy = best.metrics["accuracy"]
        error = standard_error(accuracy, size["validation"])
        note = (
            f"{subject.name}, not trained again: best {100 * accuracy:.1f} % in trial "
            f"{best.number + 1} at {best.metrics['average_bits']:.1f} bits a weight, standard "
            f"error {100 * error:.1f} points; the last column counts the format in the best trials"
        )
        columns = ("layer", "format", "data width", "weight width", f"of {size['best']}")
        return Outcome(columns, rows, figure, note)


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
        subject = Subject.load(MODEL, **counts, seed=self.seed)
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
