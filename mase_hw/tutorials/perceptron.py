"""From a perceptron of one's own to hardware, with an activation that is new.

    python -m mase_hw.tutorials.perceptron

The activation is the square of a ReLU (So et al., "Primer", 2021, arXiv:2109.08668), written in
torch; how an operator of its own module is added is on the page of `mase_hw/ops`.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.data import dataset
from mase_hw.emit.preflight import preflight
from mase_hw.training import Trainer, evaluate

logger = logging.getLogger(__name__)


class SquaredReLU(nn.Module):
    """`max(x, 0)^2`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation, element by element."""
        return torch.square(torch.relu(x))


def main(folder: Path, *, epochs: int = 10, samples: int = 50) -> dict[str, float]:
    """Run the tutorial, and return accuracies and what the hardware reaches.

    Args:
        folder: of the project.
        epochs: of the training.
        samples: that are simulated.
    """
    torch.manual_seed(0)
    split = dataset("digits").load()
    tests = split.test_inputs, split.test_labels
    model = nn.Sequential(nn.Linear(64, 24), SquaredReLU(), nn.Linear(24, 10))
    Trainer(epochs=epochs, learning_rate=3e-3).fit(model, split.train_inputs, split.train_labels)
    found = {"float": evaluate(model.eval(), *tests)}

    # 1. Number formats; the ranges are those of training samples.
    entry = {"name": "fixed", "data_in_width": 8, "weight_width": 6, "bias_width": 8}
    config = {"default": {"config": entry}}
    mg = mase_hw.trace(model, split.train_inputs[:2], name="perceptron")
    mg = mase_hw.quantize(mg, config, data=[split.train_inputs[:256]])
    found["quantized"] = evaluate(mg, *tests)

    # 2. Training through the rounding, if that lost too much.
    Trainer(epochs=2, learning_rate=3e-4).fit(mg, split.train_inputs, split.train_labels)
    found["trained"] = evaluate(mg.eval(), *tests)

    # 3. What stands in the way of hardware: here nothing.
    assert not preflight(mg)

    # 4. The project, and its simulation against the integer reference.
    project = mase_hw.emit_verilog(mg, output=folder, parallelism=8)
    report = mase_hw.simulate(project, split.test_inputs[:samples])
    found["bit-exact"] = float(report.bit_exact)
    found["interval"] = float(report.interval_cycles or 0)
    for name, value in found.items():
        logger.info("%s: %.4g", name, value)
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-perceptron"))
