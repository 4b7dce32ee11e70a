"""Sparsity against accuracy: weights and activations, before and after training again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from mase_hw._kinds import Record, Table
from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_accuracies, new_figure
from mase_hw.experiments._subject import Subject, steps
from mase_hw.experiments.ptq_qat import linear_layers
from mase_hw.graph.masks import hold_masks
from mase_hw.passes.compression.prune import prune_transform_pass
from mase_hw.passes.compression.prune_activations import prune_activations_transform_pass

MODEL = "bert-tiny"
L1, RANDOM = {"criterion": "l1"}, {"criterion": "random"}
WAYS: dict[str, Record] = {
    "L1, local": {**L1, "scope": "local"},
    "L1, global": {**L1, "scope": "global"},
    "random, local": {**RANDOM, "scope": "local"},
    "random, global": {**RANDOM, "scope": "global"},
}
PRUNED: dict[str, Callable[..., tuple[object, object]]] = {
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
        "train": 1024,
        "test": 1000,
        "epochs": 1,
    }
    quick: ClassVar[Table] = {"sparsities": [0.1, 0.3, 0.5, 0.7, 0.9], "train": 256, "test": 500}

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
