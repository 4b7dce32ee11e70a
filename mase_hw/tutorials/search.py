"""Search of an architecture of BERT: Optuna proposes it, and every trial trains it.

python -m mase_hw.tutorials.search
"""

from __future__ import annotations

import logging
import sys
from itertools import accumulate
from pathlib import Path

import optuna
import torch
from matplotlib.figure import Figure

import mase_hw
from mase_hw._results import result_file
from mase_hw.data import dataset
from mase_hw.models import models
from mase_hw.search import Samples

logger = logging.getLogger(__name__)


def main(folder: Path, *, trials: int = 4, samples: int = 512) -> dict[str, float]:
    """Run the tutorial, and return the best accuracy of each sampler on validation samples.

    Args:
        folder: of the studies; a search that was stopped resumes.
        trials: of each sampler.
        samples: to train on.
    """
    torch.manual_seed(0)
    split = dataset("snippets").load().hold_out()
    inputs = split.train_inputs[:samples]
    held = Samples(
        split.validation_inputs[:samples],
        split.validation_labels[:samples],
        observed=inputs[:64],
        training_inputs=inputs,
        training_labels=split.train_labels[:samples],
    )
    mg = mase_hw.trace(models()["bert-tiny"].build().eval(), inputs[:2], name="bert")
    found: dict[str, float] = {}
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="trial", ylabel="best validation accuracy so far")

    # 1. The space: arguments of the function that builds the model. A square linear layer may be
    # Identity, in the same space as the sizes, so that a grid covers both.
    space = {
        "layers": [1, 2],
        "hidden": [64, 128],
        "intermediate": [256, 512],
        "query": ["linear", "identity"],
        "output": ["linear", "identity"],
    }

    # 2. The same search with three samplers; each trial trains what it proposes.
    for sampler in ("random", "grid", "tpe"):
        result = mase_hw.search(
            mg,
            {
                "sampler": sampler,
                "trials": trials,
                "training": {"epochs": 1, "learning_rate": 3e-4, "batch_size": 16},
                "space": {"architecture": space},
            },
            output=folder / sampler,
            samples=held,
            builder="bert-tiny",
        )
        found[sampler] = result.best[0].metrics["accuracy"]
        logger.info("%s: %.3f by %s", sampler, found[sampler], dict(result.best[0].parameters))
        study = optuna.load_study(study_name=mg.name, storage=result.storage)
        values = [trial.value or 0.0 for trial in study.trials]
        axes.step(range(1, trials + 1), list(accumulate(values, max)), where="post", label=sampler)

    # 3. The best so far, by sampler.
    axes.legend()
    with result_file(folder / "curves.svg") as path:
        figure.savefig(path)
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-search"))
