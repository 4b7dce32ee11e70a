"""What attention mask and labels add to the graph of BERT."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch

from mase_hw._kinds import Record
from mase_hw._results import result_file
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import label, new_figure
from mase_hw.experiments._subject import steps
from mase_hw.graph import MaseGraph, trace

QUICK_LAYERS, LAYERS = 1, 2
TOKENS = 16


class Graph(Experiment):
    """The captured graph, once of the token ids alone, once of mask and labels too."""

    name = "graph"
    title = "BERT's graph with and without attention mask and labels as inputs"

    def run(self, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
        advance = steps(progress, 4)
        ids = torch.arange(1, TOKENS + 1)[None]
        inputs: dict[str, Record] = {
            "ids": {"input_ids": ids},
            "ids, mask, labels": {
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids),
                "labels": torch.tensor([1]),
            },
        }
        counts: list[Counter[str]] = []
        for name, given in inputs.items():
            mg = trace(classifier(QUICK_LAYERS if quick else LAYERS), given, name="bert")
            advance()
            with result_file(folder / f"graph-{name.replace(', ', '-')}.svg") as made:
                mg.draw(made)
            counts.append(operators(mg))
            advance()
        without, having = counts
        names = sorted({*without, *having})
        rows = [
            (name, without[name], having[name], having[name] - without[name])
            for name in names
            if without[name] != having[name]
        ]
        same = sum(without[name] for name in names if without[name] == having[name])
        rows.append(("all others", same, same, 0))
        total = (without.total(), having.total())
        rows.append(("nodes in all", *total, total[1] - total[0]))
        figure, (axes,) = new_figure()
        figure.set_size_inches(7, 0.32 * len(rows) + 1.2)
        shown = [row for row in rows[:-2] if row[3]]
        for shift, column, series in ((-0.2, 1, "token ids"), (0.2, 2, "with mask and labels")):
            axes.barh(
                [index + shift for index in range(len(shown))],
                [float(row[column]) for row in shown],
                0.4,
                label=series,
            )
        axes.set_yticks(range(len(shown)), [str(row[0]) for row in shown])
        axes.invert_yaxis()
        axes.legend()
        label(axes, "operators whose number differs", "nodes", "")
        note = (
            f"BERT for classification, layers: {QUICK_LAYERS if quick else LAYERS}; {TOKENS} "
            "tokens, one inference; the graphs are drawn in graph-ids.svg and "
            "graph-ids-mask-labels.svg. Nodes are inputs, weights and operators of ATen"
        )
        return Outcome(("operator", "ids", "ids, mask, labels", "difference"), rows, figure, note)


def classifier(layers: int) -> torch.nn.Module:
    """Return a small BERT with two classes; the seed gives its weights."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=1000,
        hidden_size=128,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=512,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: torch.nn.Module = BertForSequenceClassification(config)
    return model.train(False)


def operators(mg: MaseGraph) -> Counter[str]:
    """Return the number of nodes by ATen operator, inputs and weights among them."""
    words = {"placeholder": "(input)", "get_attr": "(weight)", "output": "(output)"}
    return Counter(
        words.get(node.op) or str(node.target).removeprefix("aten.").rpartition(".")[0].strip("_")
        for node in mg.nodes
    )
