"""What users do with a model of transformers, step by step, each step checked.

Quantise, train what is quantised, prune, train adapters, save and load, search. Models are tiny and
have random weights; the calls are those of the pages.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw.errors import MaseError
from tests.bench.architectures import model_and_inputs
from tests.bench.base import Row

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from mase_hw.graph import MaseGraph

MODELS = (
    "BertForSequenceClassification",
    "DistilBertForSequenceClassification",
    "ViTForImageClassification",
    "GPT2LMHeadModel",
    "LlamaForCausalLM",
    "Qwen2ForCausalLM",
)
BATCHES, TRIALS, SPARSITY, RANK = 8, 4, 0.5, 2
LEARNING_RATE = 3e-3
ENTRY = {"name": "fixed", "data_in_width": 8, "weight_width": 4, "bias_width": 8}
CONFIG = {"by": "type", "linear": {"config": ENTRY}}
SPACE = {"quantize": {"by": "type", "linear": {"config": {**ENTRY, "weight_width": [3, 4, 8]}}}}
Batch = dict[str, "Tensor"]


def workflow_rows(names: tuple[str, ...]) -> list[Row]:
    """Return how many models pass every step, and where the others stop."""
    stopped = {name: reason for name in names if (reason := stop_of(name))}
    measured = f"{len(names) - len(stopped)} of {len(names)}"
    for name, reason in stopped.items():
        measured += f"; {name}: {reason}"
    row = Row(
        "quantize, QAT of one epoch, prune, LoRA, save, load, search of 4 trials",
        measured,
        f"{len(names)} of {len(names)}",
        not stopped,
    )
    return [row]


def stop_of(name: str) -> str:
    """Return the first step that fails, with the reason; nothing when none does."""
    batches, mg = _subject(name)
    for step, run in STEPS.items():
        try:
            if not run(mg, batches):
                return f"{step} does not do what it should"
        except MaseError as error:
            return f"{step}: {error}"
    return ""


def _subject(name: str) -> tuple[list[Batch], MaseGraph]:
    """Return batches whose labels can be learned, and the captured model."""
    import torch

    import mase_hw

    model, example = model_and_inputs(name)
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(BATCHES):
        batch = {key: _drawn(key, value, generator) for key, value in example.items()}
        if not name.endswith("Classification"):
            batch["labels"] = batch["input_ids"]
        else:
            first = batch.get("input_ids", batch.get("pixel_values"))
            assert first is not None
            rows = first.flatten(1).double()
            batch["labels"] = (rows[:, 0] > rows[:, 1:].mean(1)).long()
        batches.append(batch)
    return batches, mase_hw.trace(model, batches[0], name=name.lower())


def _drawn(key: str, value: Tensor, generator: Generator) -> Tensor:
    """Return eight rows like an example."""
    import torch

    shape = (8, *value.shape[1:])
    if key == "attention_mask":
        return torch.ones(shape, dtype=value.dtype)
    if value.is_floating_point():
        return torch.randn(shape, generator=generator)
    # Few different words: what comes next can be learned.
    return torch.randint(3, 9, shape, generator=generator)


def _loss(graph: MaseGraph, batches: list[Batch]) -> float:
    import torch

    with torch.no_grad():
        return sum(float(graph(**batch)["loss"]) for batch in batches) / len(batches)


def _logits(graph: MaseGraph, batch: Batch) -> Tensor:
    import torch

    with torch.no_grad():
        logits: Tensor = graph(**batch)["logits"]
    return logits


def _quantized(mg: MaseGraph, batches: list[Batch]) -> MaseGraph:
    import mase_hw

    return mase_hw.quantize(mg, CONFIG, data=batches[:2])


def _quantizes(mg: MaseGraph, batches: list[Batch]) -> bool:
    """The quantised graph computes something near the model, and not the same."""
    import torch

    graph = _quantized(mg, batches)
    before, after = (_logits(item, batches[0]) for item in (mg, graph))
    near = float((after - before).square().mean() / before.square().mean()) < 1
    return bool(graph.is_quantized) and near and not torch.equal(before, after)


def _trains(mg: MaseGraph, batches: list[Batch]) -> bool:
    """One epoch of the quantised graph lowers its loss."""
    from mase_hw.training import Trainer

    graph = _quantized(mg, batches)
    before = _loss(graph, batches)
    history = Trainer(epochs=1, learning_rate=LEARNING_RATE).fit(graph, batches)
    return len(history.epochs) == 1 and _loss(graph.eval(), batches) < before


def _prunes(mg: MaseGraph, batches: list[Batch]) -> bool:
    """The share of zeros is what was asked for, and stays so in formats and in training."""
    from mase_hw.passes import prune_transform_pass, report_sparsity_analysis_pass
    from mase_hw.training import Trainer

    pruned, info = prune_transform_pass(mg, {"sparsity": SPARSITY})
    graph = _quantized(pruned, batches)
    Trainer(epochs=1).fit(graph, batches)
    _, after = report_sparsity_analysis_pass(graph)
    reached, kept = float(info["sparsity"]), float(after["sparsity"])
    everywhere = len(after["nodes"]) == len(info["nodes"])
    return everywhere and abs(reached - SPARSITY) < 0.02 and kept >= reached - 1e-9


def _adapts(mg: MaseGraph, batches: list[Batch]) -> bool:
    """Adapters alone are trained, lower the loss, and are fused without a difference."""
    import torch

    from mase_hw.passes import (
        fuse_lora_weights_transform_pass,
        insert_lora_adapter_transform_pass,
    )
    from mase_hw.training import Trainer

    adapted, info = insert_lora_adapter_transform_pass(mg, {"rank": RANK})
    before = _loss(adapted, batches)
    Trainer(epochs=1, learning_rate=LEARNING_RATE).fit(adapted, batches)
    adapted.eval()
    fused, _ = fuse_lora_weights_transform_pass(adapted)
    first, second = (_logits(item, batches[0]) for item in (adapted, fused.eval()))
    less = info["trainable"][1] < info["trainable"][0]
    return less and _loss(adapted, batches) < before and torch.allclose(first, second, atol=1e-4)


def _saves(mg: MaseGraph, batches: list[Batch]) -> bool:
    """What is loaded computes the same bits."""
    import torch

    from mase_hw.graph import MaseGraph

    graph = _quantized(mg, batches)
    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
        path = Path(folder) / "model.mase"
        graph.save(path)
        loaded = MaseGraph.load(path)
    expected = _logits(graph, batches[0])
    return loaded.is_quantized and torch.equal(_logits(loaded, batches[0]), expected)


def _searches(mg: MaseGraph, batches: list[Batch]) -> bool:
    """The best trial is the one of the least loss, which its configuration has again."""
    import mase_hw

    def objective(graph: MaseGraph, trial: object) -> float:
        return _loss(graph, batches)

    config = {"trials": TRIALS, "sampler": "random", "space": SPACE}
    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
        result = mase_hw.search(
            mg, config, output=folder, objective=objective, directions=["minimize"]
        )
    (best,) = result.best
    again = _loss(mase_hw.quantize(mg, best.config), batches)
    measured = best.metrics["objective"]
    return result.trials == TRIALS and not result.failed and abs(again - measured) < 1e-6


STEPS: Mapping[str, Callable[[MaseGraph, list[Batch]], bool]] = {
    "quantize": _quantizes,
    "QAT": _trains,
    "prune": _prunes,
    "LoRA": _adapts,
    "save and load": _saves,
    "search": _searches,
}
