"""Number formats that are chosen for a model: the least hardware that keeps it.

python -m mase_hw.tutorials.fit
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
from mase_hw.training import Trainer

logger = logging.getLogger(__name__)


def main(folder: Path, *, decibels: float = 30.0, epochs: int = 5) -> dict[str, float]:
    """Run the tutorial, and return what the chosen formats keep and cost.

    Args:
        folder: of the figure and the project.
        decibels: of signal over error that every output keeps.
        epochs: of the training.
    """
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    split = dataset("digits").load().hold_out()

    # 1. A trained model.
    model = models()["digits-mlp"].build()
    Trainer(epochs=epochs, learning_rate=1e-2).fit(model, split.train_inputs, split.train_labels)
    mg = mase_hw.trace(model.eval(), split.train_inputs[:2], name="digits")

    # 2. Formats are chosen on samples to train on, compared on those to validate on, and judged on
    # those to test on. `mase-hw fit digits-mlp --min-sqnr 30` does the same.
    chosen = mase_hw.fit_formats(mg, data=split, min_sqnr=decibels, formats=["fixed"])
    found = {"dB": chosen.result.sqnr_db, "LUT": chosen.result.cost.lut}

    # 3. What was tried on the way: agreement against cost, the choice among them.
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="look-up tables, estimated", ylabel="agreement, dB")
    axes.plot(*zip(*((item.cost.lut, item.sqnr_db) for item in chosen.front), strict=True), "o")
    axes.plot(found["LUT"], found["dB"], "r*", markersize=12, label="chosen")
    axes.axhline(decibels, color="gray", linestyle="--", label="goal")
    axes.legend()
    with result_file(folder / "front.svg") as path:
        figure.savefig(path)

    # 4. Its hardware, every bit checked.
    project = mase_hw.emit_verilog(chosen.graph, output=folder / "rtl", parallelism=4)
    found["bit-exact"] = float(mase_hw.simulate(project, split.test_inputs[:20]).bit_exact)
    for name, value in found.items():
        logger.info("%s: %.4g", name, value)
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-fit"))
