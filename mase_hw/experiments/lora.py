"""Fine-tuning all weights against low-rank adapters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from mase_hw.data import dataset
from mase_hw.emit.flow import canonicalize
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import label, new_figure
from mase_hw.experiments._subject import steps
from mase_hw.graph import trace
from mase_hw.graph.reference import output_nodes
from mase_hw.models.builder import build
from mase_hw.passes.compression.lora import (
    fuse_lora_weights_transform_pass,
    insert_lora_adapter_transform_pass,
    trainable,
)
from mase_hw.training import Trainer, evaluate, standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, DATA = "bert-tiny", "snippets"
QUICK_SAMPLES, QUICK_TEST_SAMPLES = 1536, 1000
RANK = 8
QUICK_EPOCHS, EPOCHS = 1, 3
RATE, ADAPTER_RATE = 3e-4, 3e-3


class Lora(Experiment):
    """The pretrained encoder with a new classifier, fine-tuned in two ways."""

    name = "lora"
    title = "trainable parameters and accuracy with and without LoRA"

    def run(self, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
        split = dataset(DATA).load().hold_out()
        train = slice(QUICK_SAMPLES if quick else None)
        inputs, labels = split.train_inputs[train], split.train_labels[train]
        test = slice(QUICK_TEST_SAMPLES if quick else None)
        tests = split.test_inputs[test], split.test_labels[test]
        start = canonicalize(trace(build(MODEL, {}), (inputs[:4],), name="bert_tiny"))
        advance = steps(progress, 4)
        rows: list[tuple[str | float, ...]] = [("before", 0, 0, 100 * evaluate(start, *tests), "")]
        advance()
        total = sum(item.numel() for item in start.model.parameters())
        epochs = QUICK_EPOCHS if quick else EPOCHS
        whole = start.copy()
        Trainer(epochs, RATE, seed=self.seed).fit(whole, inputs, labels)
        share = 100 * trainable(whole) / total
        rows.append(("all weights", trainable(whole), share, 100 * evaluate(whole, *tests), ""))
        advance()
        head = output_nodes(start)[0].name
        adapted, info = insert_lora_adapter_transform_pass(start, {"rank": RANK, "whole": [head]})
        Trainer(epochs, ADAPTER_RATE, seed=self.seed).fit(adapted, inputs, labels)
        advance()
        fused, _ = fuse_lora_weights_transform_pass(adapted)
        with torch.no_grad():
            apart, together = adapted(tests[0][:100]), fused(tests[0][:100])
        distance = float((apart - together).abs().max() / apart.abs().max())
        count = info["trainable"][1]
        found = evaluate(fused, *tests)
        rows.append(
            (f"LoRA, rank {RANK}", count, 100 * count / total, 100 * found, f"{distance:.0e}")
        )
        advance()
        error = 100 * standard_error(found, len(tests[1]))
        figure = _figure(rows, len(tests[1]), total)
        note = (
            f"{MODEL} on {DATA}, pretrained, with a new classifier: {total:,} parameters, "
            f"{epochs} epoch(s) of {len(labels):,} samples; {len(tests[1]):,} test samples, "
            f"standard error {error:.1f} points. LoRA trains adapters of {len(info['nodes'])} "
            "layers and the classifier; `fused` is the largest difference of a score after the "
            "adapters were added to the weights, over the largest score"
        )
        columns = ("fine-tuned", "trainable", "share, %", "accuracy, %", "fused")
        return Outcome(columns, rows, figure, note)


def _figure(rows: Sequence[tuple[str | float, ...]], samples: int, total: int) -> Figure:
    """Draw accuracy against the parameters that are trained."""
    figure, (axes,) = new_figure()
    for (name, trained, _, accuracy, _), marker in zip(rows[1:], "so", strict=True):
        shares = 100 * standard_error(float(accuracy) / 100, samples)
        axes.errorbar(trained, float(accuracy), shares, marker=marker, ms=8, capsize=4, label=name)
    axes.axhline(float(rows[0][3]), color="C7", linestyle="--", label="before")
    axes.set_xscale("log")
    axes.set_xlim(0.3 * float(rows[-1][1]), 3 * total)
    axes.legend(loc="center left")
    label(
        axes,
        f"{MODEL}, {samples:,} test samples",
        "parameters that are trained",
        "accuracy, %",
    )
    return figure
