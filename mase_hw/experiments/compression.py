"""Accuracy of BERT in fewer bits and with zeros, before and after training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from mase_hw._kinds import Record, Table
from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_accuracies, label, new_figure
from mase_hw.experiments._subject import Subject, steps
from mase_hw.graph.masks import hold_masks
from mase_hw.passes.compression.prune import prune_transform_pass
from mase_hw.passes.compression.prune_activations import prune_activations_transform_pass
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


L1, RANDOM = {"criterion": "l1"}, {"criterion": "random"}
WAYS: dict[str, Record] = {
    "L1, local": {**L1, "scope": "local"},
    "L1, global": {**L1, "scope": "global"},
    "random, local": {**RANDOM, "scope": "local"},
    "random, global": {**RANDOM, "scope": "global"},
}
PRUNED: dict[str, Callable[..., tuple[Any, object]]] = {
    "weights": prune_transform_pass,
    "activations": prune_activations_transform_pass,
}


class Pruning(Experiment):
    """Zeros among weights or activations of BERT-tiny in fixed point, on the test samples."""

    name = "pruning"
    title = "sparsity 0.1..0.9 of weights and activations against accuracy, before and after"
    settings: ClassVar[Table] = {
        "sparsities": [round(0.1 * tenth, 1) for tenth in range(1, 10)],
        "width": 8,
        "train": 128,
        "test": 500,
        "epochs": 1,
    }
    quick: ClassVar[Table] = {"sparsities": [0.3, 0.6, 0.9], "train": 64, "test": 200}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        subject = Subject.load(MODEL, train=size["train"], test=size["test"], seed=self.seed)
        graph = canonicalize(subject.mg)
        advance = steps(progress, len(size["sparsities"]) * len(WAYS) * len(PRUNED))
        figure, panels = new_figure(len(PRUNED))
        rows: list[list[str | float]] = []
        for axes, (what, transform) in zip(panels, PRUNED.items(), strict=True):
            curves: dict[str, list[float]] = {}
            for way, arguments in WAYS.items():
                for sparsity in size["sparsities"]:
                    told: Record = {"sparsity": sparsity, "seed": self.seed, **arguments}
                    if what == "activations":
                        told["data"] = [subject.split.train_inputs[:256]]
                    pruned, _ = transform(graph, told)
                    mg = quantize(
                        pruned,
                        linear_layers(size["width"]),
                        data=[subject.split.train_inputs[:256]],
                    )
                    curves.setdefault(f"before {way}", []).append(subject.accuracy(mg))
                    hold_masks(mg)
                    subject.fit(mg, epochs=size["epochs"], learning_rate=1e-4)
                    curves.setdefault(way, []).append(subject.accuracy(mg))
                    advance()
            rows += [
                [what, name, *(100 * value for value in values)] for name, values in curves.items()
            ]
            draw_accuracies(axes, size["sparsities"], curves, size["test"])
            axes.set(title=f"{MODEL}, zeros among {what}", ylabel="accuracy, %")
        panels[-1].set_xlabel("sparsity")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize="small")
        note = (
            f"{MODEL}, linear layers in fixed point; `before` training, which keeps the zeros; the "
            "seed draws random zeros, in a mask of each layer for activations whatever the scope"
        )
        return Outcome(("zeros in", "by", *map(str, size["sparsities"])), rows, figure, note)
