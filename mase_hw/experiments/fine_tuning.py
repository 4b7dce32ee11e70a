"""Fine-tuning of BERT: which weights are trained, and for how many epochs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from mase_hw._kinds import Table
from mase_hw.emit.flow import canonicalize
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import draw_accuracies, label, new_figure
from mase_hw.experiments._subject import Subject, steps
from mase_hw.graph import trace
from mase_hw.graph.reference import output_nodes
from mase_hw.models.builder import build
from mase_hw.passes.compression.lora import (
    fuse_lora_weights_transform_pass,
    insert_lora_adapter_transform_pass,
    trainable,
)
from mase_hw.training import standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = "bert-tiny"
RANK = 8
RATE, ADAPTER_RATE = 3e-4, 3e-3


class Lora(Experiment):
    """The pretrained encoder with a new classifier, fine-tuned in three ways."""

    name = "lora"
    title = "trainable parameters and accuracy: all weights, frozen embeddings, LoRA"
    settings: ClassVar[Table] = {"train": 6853, "test": 2000, "epochs": 3}
    quick: ClassVar[Table] = {"train": 1536, "test": 1000, "epochs": 1}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        subject = Subject.load(MODEL, train=size["train"], test=size["test"], seed=self.seed)
        inputs = subject.split.test_inputs[:100]
        start = canonicalize(trace(build(MODEL, {}), (inputs[:4],), name="bert_tiny"))
        advance = steps(progress, 3)
        total = trainable(start)
        rows = [("before", 0, 0.0, 100 * subject.accuracy(start), "")]
        for name, kept in (("all weights", ()), ("frozen embeddings", ("embeddings",))):
            mg = start.copy()
            for path, parameter in mg.named_parameters():
                parameter.requires_grad_(not any(word in path for word in kept))
            subject.fit(mg, epochs=size["epochs"], learning_rate=RATE)
            count = trainable(mg)
            rows.append((name, count, 100 * count / total, 100 * subject.accuracy(mg), ""))
            advance()
        head = output_nodes(start)[0].name
        adapted, info = insert_lora_adapter_transform_pass(start, {"rank": RANK, "whole": [head]})
        subject.fit(adapted, epochs=size["epochs"], learning_rate=ADAPTER_RATE)
        fused, _ = fuse_lora_weights_transform_pass(adapted)
        with torch.no_grad():
            apart, together = adapted(inputs), fused(inputs)
        distance = float((apart - together).abs().max() / apart.abs().max())
        count, found = info["trainable"][1], 100 * subject.accuracy(fused)
        rows.append((f"LoRA, rank {RANK}", count, 100 * count / total, found, f"{distance:.0e}"))
        advance()
        figure = _figure(rows, size["test"], total)
        note = (
            f"{MODEL} on snippets, pretrained, with a new classifier: {total:,} parameters; "
            f"standard error {100 * standard_error(found / 100, size['test']):.1f} points. LoRA "
            f"trains adapters of {len(info['nodes'])} layers and the classifier; `fused` is the "
            "largest difference of a score after the adapters were added to the weights, over the "
            "largest score"
        )
        columns = ("fine-tuned", "trainable", "share, %", "accuracy, %", "fused")
        return Outcome(columns, rows, figure, note)


def _figure(rows: Sequence[tuple[str, int, float, float, str]], samples: int, total: int) -> Figure:
    """Draw accuracy against the parameters that are trained."""
    figure, (axes,) = new_figure()
    for (name, trained, _, accuracy, _), marker in zip(rows[1:], "sDo", strict=True):
        shares = 100 * standard_error(accuracy / 100, samples)
        axes.errorbar(trained, accuracy, shares, marker=marker, ms=8, capsize=4, label=name)
    axes.axhline(rows[0][3], color="C7", linestyle="--", label="before")
    axes.set_xscale("log")
    axes.set_xlim(0.3 * rows[-1][1], 3 * total)
    axes.legend(loc="center left")
    label(axes, f"{MODEL}, {samples:,} test samples", "parameters that are trained", "accuracy, %")
    return figure


class Epochs(Experiment):
    """The pretrained encoder with a new classifier, trained anew for every number of epochs."""

    name = "epochs"
    title = "accuracy by number of epochs, and the loss of every step"
    settings: ClassVar[Table] = {"epochs": [1, 2, 3, 5, 8], "train": 4096, "test": 2000}
    quick: ClassVar[Table] = {"epochs": [1, 2, 3, 5], "train": 1024, "test": 1000}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        subject = Subject.load(MODEL, train=size["train"], test=size["test"], seed=self.seed)
        advance = steps(progress, len(size["epochs"]))
        figure, (above, below) = new_figure(2)
        found, rows = [], []
        for count in size["epochs"]:
            module = build(MODEL, {})
            history = subject.fit(module, epochs=count, learning_rate=3e-4)
            found.append(subject.accuracy(module))
            losses = [loss for epoch in history.epochs for loss in epoch.steps]
            rows.append((count, len(losses), losses[0], history.epochs[-1].loss, 100 * found[-1]))
            advance()
        above.plot(range(1, len(losses) + 1), losses, linewidth=0.8)
        above.set(title=f"training for {count} epochs", xlabel="step", ylabel="loss")
        draw_accuracies(below, size["epochs"], {MODEL: found}, size["test"])
        below.set_xticks(size["epochs"])
        below.set(
            title=f"{MODEL}, {size['test']} test samples", xlabel="epochs", ylabel="accuracy, %"
        )
        note = f"{MODEL} on snippets, pretrained; each training anneals its rate to zero"
        columns = ("epochs", "steps", "first loss", "loss of the last epoch", "accuracy, %")
        return Outcome(columns, rows, figure, note)
