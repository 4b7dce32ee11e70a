"""Search of an architecture, and of number formats layer by layer.

python -m mase_hw.tutorials.search
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import torch

import mase_hw
from mase_hw.data import dataset
from mase_hw.models import models
from mase_hw.search import Samples
from mase_hw.training import Trainer

logger = logging.getLogger(__name__)


def main(folder: Path, *, trials: int = 12, epochs: int = 5) -> dict[str, float]:
    """Run the tutorial, and return what the best trials reach on validation samples.

    Args:
        folder: of the studies; a search that was stopped goes on.
        trials: of each search.
        epochs: of each training.
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
    model = models()["digits-mlp"]
    found: dict[str, float] = {}

    # 1. The architecture: arguments of the function that builds the model, trained in each trial.
    build = model.build()
    result = mase_hw.search(
        mase_hw.trace(build.eval(), split.train_inputs[:2], name="digits"),
        {
            "sampler": "tpe",
            "trials": trials,
            "objectives": ["accuracy"],
            "training": {"epochs": epochs, "learning_rate": 1e-2},
            "space": {"architecture": {"first": [16, 32, 64], "second": [16, 32]}},
        },
        output=folder / "architecture",
        samples=samples,
        builder="digits-mlp",
    )
    best = result.best[0]
    logger.info("best architecture: %s", dict(best.parameters))
    found["architecture"] = best.metrics["accuracy"]

    # 2. The formats of a trained model: one choice for all layers of a type, one tied to another.
    trained = model.build()
    Trainer(epochs=epochs, learning_rate=1e-2).fit(trained, split.train_inputs, split.train_labels)
    linear = {
        "shared": True,
        "config": {
            "name": ["fixed", "mxint"],
            "data_in_width": [4, 6, 8],
            "weight_width": [3, 4, 6, 8],
            "bias_width": 8,
        },
    }
    result = mase_hw.search(
        mase_hw.trace(trained.eval(), split.train_inputs[:2], name="digits"),
        {
            "sampler": "tpe",
            "trials": trials,
            "objectives": ["accuracy", "average_bits"],
            "space": {"quantize": {"by": "type", "linear": linear}},
        },
        output=folder / "formats",
        samples=samples,
    )
    for trial in result.best:
        logger.info(
            "%.1f %% at %.1f bits", 100 * trial.metrics["accuracy"], trial.metrics["average_bits"]
        )
    found["formats"] = max(trial.metrics["accuracy"] for trial in result.best)
    found["bits"] = min(trial.metrics["average_bits"] for trial in result.best)
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-search"))
