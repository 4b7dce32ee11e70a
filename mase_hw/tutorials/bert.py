"""BERT: its graph, fine-tuning by adapters, quantisation after and during training.

    python -m mase_hw.tutorials.bert

BERT-tiny comes with pretrained weights inside a package; the task is whether a sentence of a movie
review is positive.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import torch

import mase_hw
from mase_hw.data import dataset
from mase_hw.models import models
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    fuse_lora_weights_transform_pass,
    insert_lora_adapter_transform_pass,
    report_operators_analysis_pass,
)
from mase_hw.training import Trainer, evaluate

logger = logging.getLogger(__name__)


def linear_layers(bits: int) -> dict[str, Any]:
    """Return a configuration that quantises linear layers and leaves the rest in real numbers."""
    entry = {"name": "fixed", "data_in_width": bits, "weight_width": bits, "bias_width": 8}
    return {"by": "type", "linear": {"config": entry}}


def main(folder: Path, *, samples: int = 2048, epochs: int = 1) -> dict[str, float]:
    """Run the tutorial, and return the accuracy of every step on test samples.

    Args:
        folder: for the graph's file and the curves of the trainings.
        samples: to train on.
        epochs: of each training.
    """
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    split = dataset("snippets").load().hold_out()
    inputs, labels = split.train_inputs[:samples], split.train_labels[:samples]
    held_out = split.validation_inputs[:samples], split.validation_labels[:samples]
    found: dict[str, float] = {}

    def note(step: str, graph: mase_hw.MaseGraph) -> None:
        found[step] = evaluate(graph, split.test_inputs[:samples], split.test_labels[:samples])
        logger.info("%s: %.1f %%", step, 100 * found[step])

    # 1. The graph: ATen operators with their shapes and the lines that they come from.
    mg = mase_hw.trace(models()["bert-tiny"].build().eval(), inputs[:2], name="bert")
    mg, _ = add_common_metadata_analysis_pass(mg)
    _, info = report_operators_analysis_pass(mg)
    logger.info("operators: %s", info["operators"])
    mg.draw(folder / "bert.svg")
    note("before", mg)

    # 2. Fine-tuning by adapters of rank 8; the classifier is new, so it is trained whole.
    (classifier,) = (node.name for node in mg.nodes if node.name.endswith("classifier"))
    adapted, info = insert_lora_adapter_transform_pass(mg, {"rank": 8, "whole": [classifier]})
    logger.info("trained elements: %d of %d", info["trainable"][1], info["parameters"])
    trainer = Trainer(epochs=epochs, learning_rate=1e-3, batch_size=32)
    trainer.fit(adapted, inputs, labels, validation=held_out).draw(folder / "lora")
    tuned, _ = fuse_lora_weights_transform_pass(adapted)
    tuned.eval()
    note("adapters", tuned)

    # 3. Quantisation after training: ranges are those of a few batches.
    data = [inputs[:64], inputs[64:128]]
    note("8 bits", mase_hw.quantize(tuned, linear_layers(8), data=data))
    rounded = mase_hw.quantize(tuned, linear_layers(4), data=data)
    note("4 bits", rounded)

    # 4. Training of the quantised model: the same loop, through the rounding.
    trainer = Trainer(epochs=epochs, learning_rate=3e-4, batch_size=32)
    trainer.fit(rounded, inputs, labels, validation=held_out).draw(folder / "qat")
    note("4 bits, trained", rounded.eval())

    # 5. A graph with its weights and formats is one file.
    rounded.save(folder / "bert.mase")
    note("4 bits, loaded", mase_hw.MaseGraph.load(folder / "bert.mase"))
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-bert"))
