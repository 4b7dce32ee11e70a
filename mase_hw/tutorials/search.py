"""Search of an architecture: Optuna proposes it, and every trial trains it.

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

logger = logging.getLogger(__name__)


def main(folder: Path, *, trials: int = 12, epochs: int = 5) -> dict[str, float]:
    """Run the tutorial, and return what the best trial reaches on validation samples.

    Args:
        folder: of the study; a search that was stopped resumes.
        trials: of the search.
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

    # 1. The space: arguments of the function that builds the model, which each trial trains.
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
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-search"))
