"""Accuracy against hardware, and the chosen points on the hardware itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from mase_hw._kinds import Table
from mase_hw.api import emit_verilog, simulate
from mase_hw.emit.flow import canonicalize
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import label, logarithmic, new_figure
from mase_hw.experiments._subject import Subject, classes, steps
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.search import TrialResult
from mase_hw.search.objective import score
from mase_hw.training import standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = "digits-mlp"
WIDTHS = [2, 3, 4, 6, 8]
ENTRY = {"name": "fixed", "data_in_width": WIDTHS, "weight_width": WIDTHS, "bias_width": 8}
SPACE: dict[str, object] = {
    "quantize": {"by": "type", "linear": {"config": ENTRY}},
    "parallelism": {"default": [1, 2, 4, 8]},
}
OBJECTIVES = ("accuracy", "lut", "interval_cycles")
LEAST_ACCURACY = 0.8


class HardwarePareto(Experiment):
    """The front of accuracy, look-up tables and cycles, and RTL of some of its points."""

    name = "hardware-pareto"
    title = "accuracy against LUT and cycles, chosen points measured on RTL"

    settings: ClassVar[Table] = {"trials": 300, "points": 6, "population": 50}
    quick: ClassVar[Table] = {"trials": 40, "points": 3, "population": 10}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        subject = Subject.load(MODEL, seed=self.seed)
        trials, points = size["trials"], size["points"]
        advance = steps(progress, trials + points)
        config = {
            "sampler": "nsga2",
            "sampler_options": {"population_size": size["population"]},
            "trials": trials,
            "objectives": OBJECTIVES,
            "constraints": {"accuracy": LEAST_ACCURACY},
            "space": SPACE,
        }
        found = subject.search(config, folder / "search", advance)
        front = list(found.result.best)
        rows = []
        chosen = spread(front, points)
        for item in chosen:
            on_rtl, equal = rtl_accuracy(subject, item, folder / f"trial_{item.number}")
            advance()
            metrics = item.metrics
            rows.append(
                (
                    item.number,
                    100 * metrics["accuracy"],
                    round(metrics["lut"]),
                    round(metrics["interval_cycles"]),
                    metrics["average_bits"],
                    100 * on_rtl,
                    "yes" if equal else "no",
                )
            )
        count, tested = len(subject.split.validation_labels), len(subject.split.test_labels)
        error = standard_error(front[0].metrics["accuracy"], count)
        figure = _figure(front, chosen, count, error)
        note = (
            f"{MODEL}: {len(front)} trials on the front, at least "
            f"{100 * LEAST_ACCURACY:.0f} % accurate; chosen by accuracy on {count} "
            f"validation samples (standard error {100 * error:.1f} points), measured on RTL with "
            f"{tested} test samples (standard error "
            f"{100 * standard_error(front[0].metrics['accuracy'], tested):.1f} points). `equal`: "
            "every bit of every output and every class equals the integer reference's"
        )
        columns = ("trial", "val., %", "LUT", "cycles", "bits", "RTL test, %", "equal")
        return Outcome(columns, rows, figure, note)


def _figure(
    front: list[TrialResult], chosen: list[TrialResult], count: int, error: float
) -> Figure:
    """Draw accuracy against look-up tables and against cycles."""
    figure, panels = new_figure(2)
    for axes, metric, across in zip(
        panels,
        OBJECTIVES[1:],
        ("LUT, estimated", "cycles per inference"),
        strict=True,
    ):
        for items, (marker, color), name in (
            (front, (".", "C0"), "front"),
            (chosen, ("o", "C3"), "emitted"),
        ):
            axes.errorbar(
                [item.metrics[metric] for item in items],
                [100 * item.metrics["accuracy"] for item in items],
                100 * error,
                linestyle="none",
                capsize=2,
                alpha=0.8,
                label=name,
                marker=marker,
                color=color,
            )
        logarithmic(axes.xaxis)
        axes.legend()
        label(axes, f"{MODEL}, {count} validation samples", across, "accuracy, %")
    return figure


def spread(front: list[TrialResult], points: int) -> list[TrialResult]:
    """Return the most accurate point, and others at even steps down the front's better half."""
    half = front[: max(points, len(front) // 2)]
    step = max(1, (len(half) - 1) // max(1, points - 1))
    return half[::step][:points]


def rtl_accuracy(subject: Subject, item: TrialResult, folder: Path) -> tuple[float, bool]:
    """Return the accuracy of a trial's RTL on the test samples, and whether it is the trial's."""
    inputs, labels = subject.split.test_inputs, subject.split.test_labels
    project = emit_verilog(
        subject.mg, output=folder, config=item.config, parallelism=dict(item.parallelism) or 1
    )
    report = simulate(project, inputs)
    (outputs,) = report.outputs.values()
    found = classes(outputs)
    quantized, _ = quantize_transform_pass(canonicalize(subject.mg, item.config), item.config)
    equal = report.bit_exact and torch.equal(found, classes(score(quantized, inputs)))
    return float((found == labels).double().mean()), equal
