"""Pruning and a compression pipeline on a convolutional network of one's own.

python -m mase_hw.tutorials.pruning
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import torch
from torch import nn

import mase_hw
from mase_hw.data import Split, dataset
from mase_hw.training import Trainer, evaluate

logger = logging.getLogger(__name__)


class Network(nn.Module):
    """Two convolutions and a classifier for images of 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.classifier = nn.Linear(16 * 16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return scores `[samples, 10]` of images `[samples, 1, 8, 8]`."""
        hidden = torch.relu(self.second(torch.relu(self.first(image))))
        scores: torch.Tensor = self.classifier(hidden.flatten(1))
        return scores


def images() -> Split:
    """Return handwritten digits as images."""
    split = dataset("digits").load()
    shape = (-1, 1, 8, 8)
    return Split(
        split.train_inputs.reshape(shape),
        split.train_labels,
        split.test_inputs.reshape(shape),
        split.test_labels,
    )


def main(folder: Path, *, epochs: int = 10) -> dict[str, float]:
    """Run the tutorial, and return accuracies and sizes.

    Args:
        folder: of the results.
        epochs: of each training.
    """
    torch.manual_seed(0)
    split = images()
    mg = mase_hw.trace(Network(), split.train_inputs[:2], name="network")
    Trainer(epochs=epochs, learning_rate=3e-3).fit(mg, split.train_inputs, split.train_labels)
    found = {"trained": evaluate(mg.eval(), split.test_inputs, split.test_labels)}

    # 1. Weights become zeros: the modules stay, and training leaves the zeros alone.
    sparse = mase_hw.prune(mg, sparsity=0.7, criterion="l1", scope="global")
    found["70 % zeros"] = evaluate(sparse, split.test_inputs, split.test_labels)

    # 2. Channels leave: fewer parameters, smaller hardware.
    small = mase_hw.prune(mg, structured=True, sparsity=0.25)
    found["parameters"] = sum(item.numel() for item in mg.parameters())
    found["parameters left"] = sum(item.numel() for item in small.parameters())

    # 3. A pipeline does both, trains between the steps, and ends with number formats.
    entry = {"name": "fixed", "data_in_width": 6, "weight_width": 5, "bias_width": 8}
    train = {"pass": "train", "epochs": epochs, "learning_rate": 1e-3}
    result = mase_hw.compress(
        mg,
        {
            "seed": 0,
            "steps": [
                {"pass": "prune_structure", "sparsity": 0.25},
                train,
                {"pass": "prune", "sparsity": 0.3, "scope": "global"},
                train,
                {"pass": "quantize", "observer": "mse", "config": {"default": {"config": entry}}},
                train,
            ],
        },
        split,
        output=folder / "compressed",
    )
    graph = mase_hw.quantize(result.mg, result.config)
    found["compressed"] = evaluate(graph, split.test_inputs, split.test_labels)

    # 4. Hardware of what is left, checked on test images, every bit.
    project = mase_hw.emit_verilog(graph, output=folder / "rtl", parallelism=4)
    report = mase_hw.simulate(project, split.test_inputs[:20])
    found["bit-exact"] = float(report.bit_exact)
    for name, value in found.items():
        logger.info("%s: %.4g", name, value)
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-pruning"))
