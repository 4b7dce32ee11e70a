"""The software stream: what compiling, fused attention and MXINT8 save.

python -m mase_hw.tutorials.software
"""

from __future__ import annotations

import copy
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.benchmark import Timer

from mase_hw._results import result_file
from mase_hw.data import dataset
from mase_hw.kernels.mxint import convert_to_mxint8, dequantize, quantize, use
from mase_hw.kernels.profile.mxint8 import memory_terms
from mase_hw.kernels.profile.sdpa import naive_attention
from mase_hw.models import models
from mase_hw.training import evaluate

logger = logging.getLogger(__name__)


def milliseconds(call: Callable[..., Tensor], *operands: Tensor) -> dict[str, float]:
    """Return times of a call: by a clock the first and a later one, and by torch's benchmark."""
    clock = []
    for _ in range(5):
        start = time.perf_counter()
        call(*operands)
        clock.append(1e3 * (time.perf_counter() - start))
    timer = Timer("call(*operands)", globals={"call": call, "operands": operands})
    median = 1e3 * timer.blocked_autorange(min_run_time=0.1).median
    return {"first call": clock[0], "later call": clock[-1], "benchmark": median}


def main(folder: Path, *, samples: int = 500, longest: int = 1024) -> dict[str, float]:
    """Run the tutorial, and return errors, sizes, accuracies and times.

    Args:
        folder: of the figures.
        samples: to measure accuracy on.
        longest: sequence of attention, a power of two from 64 on.
    """
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, float] = {}
    model = models()["bert-tiny"].build().eval()

    # 1. The first call of a compiled module compiles it: only later ones may be faster. A clock
    # around one call shows all that the machine does meanwhile; `torch.utils.benchmark` warms up,
    # takes one thread, and the median of many calls. On a GPU a clock must also wait for the end.
    layer = model.get_submodule("model.bert.encoder.layer.0.intermediate")
    hidden = torch.randn(64, 32, 128)
    with torch.no_grad():
        for name, module in (("eager", layer), ("compiled", torch.compile(layer))):
            for how, value in milliseconds(module, hidden).items():
                found[f"{name}, {how}, ms"] = value
    if not torch.cuda.is_available():
        logger.info("cuda: unmeasured, there is no GPU; `mase-hw profile` has --device cuda")

    # 2. Fused attention never holds the table of scores: it saves more on longer sequences.
    lengths = [64 * 2**power for power in range(20) if 64 * 2**power <= longest]
    times: dict[str, list[float]] = {"naive": [], "fused": []}
    for length in lengths:
        operands = torch.randn(3, 1, 4, length, 32)
        times["naive"].append(milliseconds(naive_attention, *operands)["benchmark"])
        times["fused"].append(milliseconds(scaled_dot_product_attention, *operands)["benchmark"])
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="tokens", ylabel="milliseconds")
    for name, values in times.items():
        axes.loglog(lengths, values, "o-", label=name)
    axes.legend()
    with result_file(folder / "attention.svg") as path:
        figure.savefig(path)
    found["naive / fused"] = times["naive"][-1] / times["fused"][-1]

    # 3. MXINT8: 32 neighbours share a power of two, so that a weight takes 8.25 bits. Every
    # implementation gives the bits of the reference.
    weight = torch.randn(256, 320)
    codes, exponents = quantize(weight)
    found["relative error"] = float((dequantize(codes, exponents) - weight).norm() / weight.norm())
    found["bits per weight"] = 8 * (codes.nbytes + exponents.nbytes) / weight.numel()
    with use("reference"):
        found["equal"] = float(all(map(torch.equal, (codes, exponents), quantize(weight))))

    # 4. A weight shrinks by (32 - 8 - 8/32) / 32 = 74.2 % (with 4 bits by 86.7 %), a model by less:
    # biases and norms stay in float32, and memory is allocated in whole pages.
    split = dataset("snippets").load()
    tests = split.test_inputs[:samples], split.test_labels[:samples]
    found["accuracy"] = evaluate(model, *tests)
    small = convert_to_mxint8(copy.deepcopy(model))
    found["accuracy in MXINT8"] = evaluate(small, *tests)
    terms = memory_terms(model, small, torch.device("cpu"))
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="bytes", xscale="log")
    for shift, column, name in ((-0.2, 1, "float32"), (0.2, 2, "MXINT8")):
        sizes = [float(row[column] or 0) for row in terms]
        axes.barh([place + shift for place in range(len(terms))], sizes, 0.4, label=name)
        found[f"{name} MiB"] = sum(sizes[:-1]) / 2**20
    axes.set_yticks(range(len(terms)), [str(row[0]) for row in terms])
    axes.legend()
    with result_file(folder / "memory.svg") as path:
        figure.savefig(path)

    # 5. Both operands are quantized together: products of two codes are integers, whose sum over a
    # block is exact, and one power of two follows each block. With real inputs each product would
    # need a multiplier and an adder of floats.
    inputs, scales = quantize(torch.randn(1, 320))
    sums = (inputs.long() * codes.long()).reshape(256, 10, 32).sum(-1)
    powers = torch.exp2(scales.double() + exponents.double() - 2 * (127 + 6))
    wanted = (dequantize(inputs, scales).double() * dequantize(codes, exponents).double()).sum(-1)
    found["integer products, error"] = float(((sums * powers).sum(-1) - wanted).abs().max())
    for name, value in found.items():
        logger.info("%s: %.4g", name, value)
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/tutorial-software"))
