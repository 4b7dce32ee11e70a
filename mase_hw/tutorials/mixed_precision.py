"""Mixed precision: number formats layer by layer, accuracy against bits.

python -m mase_hw.tutorials.mixed_precision
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

import mase_hw
from mase_hw._results import result_file
from mase_hw.data import dataset
from mase_hw.models import models
from mase_hw.search import Samples
from mase_hw.training import Trainer

logger = logging.getLogger(__name__)


def main(folder: Path, *, trials: int = 12, epochs: int = 5) -> dict[str, float]:
    """Run the tutorial, and return the best accuracy and the fewest bits of the front.

    Args:
        folder: of the study; a search that was stopped resumes.
        trials: of the search.
        epochs: of the training.
    """
    torch.manual_seed(0)
    split = dataset("digits").load().hold_out()
    samples = Samples(
        split.validation_inputs,
        split.validation_labels,
        observed=split.train_inputs[:256],
        training_inputs=split.train_inputs,
        training_labels=split.train_labels,
    )

    # 1. A trained model.
    model = models()["digits-mlp"].build()
    Trainer(epochs=epochs, learning_rate=1e-2).fit(model, split.train_inputs, split.train_labels)

    # 2. The space: every linear layer has a format and widths of its own.
    linear = {
        "config": {
            "name": ["fixed", "mxint"],
            "data_in_width": [4, 6, 8],
            "weight_width": [3, 4, 6, 8],
            "bias_width": 8,
        },
    }
    result = mase_hw.search(
        mase_hw.trace(model.eval(), split.train_inputs[:2], name="digits"),
        {
            "sampler": "tpe",
            "trials": trials,
            "objectives": ["accuracy", "average_bits"],
            "space": {"quantize": {"by": "type", "linear": linear}},
        },
        output=folder / "formats",
        samples=samples,
    )

    # 3. The front: no trial has both more accuracy and fewer bits. Each point has its file
    # `front_0.toml`, ... for `mase-hw emit-verilog --config`.
    front = sorted(
        (trial.metrics["average_bits"], trial.metrics["accuracy"]) for trial in result.best
    )
    for bits, accuracy in front:
        logger.info("%.1f %% at %.1f bits", 100 * accuracy, bits)
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="bits of a weight", ylabel="validation accuracy")
    axes.plot(*zip(*front, strict=True), "o-")
    with result_file(folder / "front.svg") as path:
        figure.savefig(path)
    return {"bits": front[0][0], "accuracy": front[-1][1]}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-mixed-precision"))
