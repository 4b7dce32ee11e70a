"""The software stream: a model with weights in MXINT8, and what fused attention saves.

python -m mase_hw.tutorials.software
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mase_hw._results import result_file
from mase_hw.data import dataset
from mase_hw.kernels.mxint import convert_to_mxint8, dequantize, quantize, use
from mase_hw.models import models
from mase_hw.training import evaluate

logger = logging.getLogger(__name__)


def naive_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention `[batch, heads, tokens, size]` as the formula is written."""
    scores: Tensor = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    return scores.softmax(-1) @ value


def milliseconds(call: Callable[..., Tensor], *operands: Tensor, rounds: int = 9) -> float:
    """Return the median time of a call, after one that is not counted."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        call(*operands)
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times[1:])[rounds // 2]


def main(folder: Path, *, samples: int = 500, longest: int = 1024) -> dict[str, float]:
    """Run the tutorial, and return errors, sizes, accuracies and times.

    Args:
        folder: of the figure.
        samples: to measure accuracy on.
        longest: sequence of attention, a power of two from 64 on.
    """
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, float] = {}

    # 1. MXINT8: 32 neighbours share a power of two, so that a weight takes 8.25 bits.
    weight = torch.randn(256, 320)
    codes, exponents = quantize(weight)
    found["relative error"] = float((dequantize(codes, exponents) - weight).norm() / weight.norm())
    found["bits per weight"] = 8 * (codes.nbytes + exponents.nbytes) / weight.numel()

    # 2. Every implementation gives the bits of the reference.
    with use("reference"):
        expected = quantize(weight)
    found["equal"] = float(all(map(torch.equal, (codes, exponents), expected)))

    # 3. A whole model: linear layers and embeddings keep their weights in MXINT8.
    split = dataset("snippets").load()
    tests = split.test_inputs[:samples], split.test_labels[:samples]
    model = models()["bert-tiny"].build().eval()
    found["float32 MiB"] = sum(item.nbytes for item in model.state_dict().values()) / 2**20
    found["accuracy"] = evaluate(model, *tests)
    model = convert_to_mxint8(model)
    found["MXINT8 MiB"] = sum(item.nbytes for item in model.state_dict().values()) / 2**20
    found["accuracy in MXINT8"] = evaluate(model, *tests)

    # 4. Fused attention never holds the table of scores: it saves more on longer sequences.
    lengths = [64 * 2**power for power in range(20) if 64 * 2**power <= longest]
    times: dict[str, list[float]] = {"naive": [], "fused": []}
    for length in lengths:
        operands = torch.randn(3, 1, 4, length, 32)
        times["naive"].append(milliseconds(naive_attention, *operands))
        times["fused"].append(milliseconds(scaled_dot_product_attention, *operands))
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="tokens", ylabel="milliseconds")
    for name, values in times.items():
        axes.loglog(lengths, values, "o-", label=name)
    axes.legend()
    with result_file(folder / "attention.svg") as path:
        figure.savefig(path)
    found["naive / fused"] = times["naive"][-1] / times["fused"][-1]
    for name, value in found.items():
        logger.info("%s: %.4g", name, value)
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-software"))
