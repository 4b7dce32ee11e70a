"""Every number format, each with a search of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw._kinds import Record
from mase_hw.errors import FormatError
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import label, new_figure
from mase_hw.experiments._subject import Curve, Subject, steps
from mase_hw.formats import Format, formats
from mase_hw.training import standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTHS = [4, 6, 8]
# What the narrowest width leaves for an exponent beside a mantissa.
EXPONENT_WIDTH = 2
BIASES = [1, 3, 5]
# Scores of one or two bits would tie; sums are rounded to a format where the next layer reads them.
RESULT = {"data_out_name": "fixed", "data_out_width": 16}
LINE_INCHES = 0.24
# Points below the best that the closer view shows.
CLOSE = 3
BITS = (1, 2, 4, 8, 16, 32)


class Precisions(Experiment):
    """The best accuracy of every format, and its bits; formats without a width have one point."""

    name = "precisions"
    title = "best accuracy and bits per weight of every format of the registry"

    def run(self, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
        if quick:
            subject = Subject.load("digits-mlp", seed=self.seed)
            trials, training = 4, {"epochs": 3, "learning_rate": 1e-3}
        else:
            subject = Subject.load("bert-tiny", seed=self.seed)
            trials, training = 20, {"epochs": 1, "learning_rate": 1e-4}
        advance = steps(progress, len(formats()) * trials)
        found: dict[str, Curve] = {}
        for name, cls in formats().items():
            config = {
                "sampler": "tpe",
                "trials": trials,
                "finetuning": training,
                "space": space(name, cls),
            }
            if not _has_width(cls):
                # One point, which a grid of one visits.
                config |= {"sampler": "grid"}
            found[name] = subject.search(config, folder / name, advance)
            for _ in range(trials - len(found[name].accuracies)):
                advance()
        order = sorted(found, key=lambda name: -found[name].accuracies[-1])
        rows = [_row(name, found[name]) for name in order]
        count = len(subject.split.validation_labels)
        error = standard_error(found[order[0]].accuracies[-1], count)
        figure = _draw(rows, count, subject.name)
        note = (
            f"{subject.name}: widths of {WIDTHS} for data and weight of every linear layer, "
            f"trained in the format (epochs: {training['epochs']}); minifloats have exponents of "
            f"{EXPONENT_WIDTH} bits, sums of a layer are fixed point of 16; {count} validation "
            f"samples, standard error of the best {100 * error:.1f} points"
        )
        return Outcome(("format", "best, %", "in trial", "bits per weight"), rows, figure, note)


def _draw(rows: Sequence[tuple[str, float, int, float]], count: int, model: str) -> Figure:
    """Draw a line a format: its accuracy with its standard error, and its bits per weight."""
    figure, panels = new_figure(3)
    figure.set_size_inches(figure.get_figwidth() * 0.55, 1.2 + LINE_INCHES * len(rows))
    lines = range(len(rows))
    names, percents, _, widths = zip(*rows, strict=True)
    errors = [100 * standard_error(percent / 100, count) for percent in percents]
    whole, closer, bits = panels
    points = list(zip(percents, lines, errors, strict=True))
    near = [point for point in points if point[0] > percents[0] - CLOSE]
    # What lies outside would reach in with its error alone.
    for axes, shown in ((whole, points), (closer, near)):
        values, places, spreads = zip(*shown, strict=True)
        axes.errorbar(values, places, xerr=spreads, fmt="o", capsize=3)
    closer.set_xlim(
        min(percent - error for percent, _, error in near) - 0.5,
        max(percent + error for percent, _, error in near) + 0.5,
    )
    bits.plot(widths, lines, "s", color="C1")
    bits.set_xscale("log", base=2)
    bits.set_xticks(BITS, [str(number) for number in BITS])
    for axes in panels:
        axes.set_yticks(lines, names if axes is whole else [""] * len(rows))
        axes.set_ylim(len(rows) - 0.5, -0.5)
    label(whole, f"{model}, {count} validation samples", "best accuracy, %", "")
    label(closer, f"within {CLOSE} points of the best", "best accuracy, %", "")
    label(bits, "what it costs", "bits per weight", "")
    return figure


def space(name: str, cls: type[Format]) -> Record:
    """Return the space of a format: its widths, or the format alone."""
    entry: Record = {"name": [name], **RESULT}
    if _has_width(cls):
        entry |= {"name": name, "data_in_width": WIDTHS, "weight_width": WIDTHS}
        entry |= {"bias_width": max(WIDTHS)}
    if not _has_every_width(cls):
        entry |= {f"{operand}_exponent_width": EXPONENT_WIDTH for operand in ("data_in", "weight")}
        # Nothing else moves the range of these formats to that of the weights.
        if "exponent_bias" in cls.field_names():
            entry |= {"weight_exponent_bias": BIASES}
    config = {"by": "type", "default": {"config": {"name": None}}, "linear": {"config": entry}}
    return {"quantize": config}


def _has_every_width(cls: type[Format]) -> bool:
    """Return true when the widths leave room for the format's other fields as they are."""
    try:
        cls.fit(-1.0, 1.0, **({"width": min(WIDTHS)} if _has_width(cls) else {}))
    except FormatError:
        return False
    return True


def _has_width(cls: type[Format]) -> bool:
    return "width" in cls.field_names()


def _row(name: str, curve: Curve) -> tuple[str, float, int, float]:
    best = curve.result.best[0]
    return name, 100 * best.metrics["accuracy"], best.number + 1, best.metrics["average_bits"]
