"""Seconds and memory from a large model to a project, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator

from mase_hw.errors import MaseError
from tests.bench.base import PYTHON, Row, python_environment

MODELS = ("alexnet", "mobilenet_v2", "resnet50", "densenet121", "vit_b_16")
SECONDS_BAR, FIXED_BYTES, WEIGHTS = 60, 1 << 30, 3
LIMIT_SECONDS = 1800
MAIN = """
import json, resource, sys, tempfile, time

import torch

import mase_hw
from tests.bench.listed_models import vision_model

torch.set_num_threads(2)
model = vision_model(sys.argv[1])
weights = sum(item.numel() * item.element_size() for item in model.state_dict().values())
start = time.monotonic()
graph = mase_hw.quantize(mase_hw.trace(model, torch.randn(2, 3, 224, 224), name="model"))
with tempfile.TemporaryDirectory() as folder:
    mase_hw.emit_verilog(graph, output=folder + "/model", memory="external")
    seconds = time.monotonic() - start
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sys.stdout.write(json.dumps([seconds, peak, weights, time.process_time()]))
"""


def size_rows(*, quick: bool) -> Iterator[Row]:
    """Emit large classifiers at 224 pixels, one multiplier a layer, their weights outside."""
    for name in MODELS[1:2] if quick else MODELS:
        what = f"{name}, 224 pixels, external weights: trace to project"
        try:
            seconds, peak, weights, processor = _measured(name)
        except MaseError as error:
            yield Row(what, f"not emitted: {error}", f"<= {SECONDS_BAR} s", False)
            continue
        yield Row(
            f"{what}, two cores",
            f"{seconds:.0f} s ({processor:.0f} s of a processor)",
            f"<= {SECONDS_BAR} s",
            seconds <= SECONDS_BAR,
        )
        most = WEIGHTS * weights + FIXED_BYTES
        yield Row(
            f"{what}, peak memory (float weights {weights >> 20} MiB)",
            f"{peak >> 20:,} MiB",
            f"<= {most >> 20:,} MiB",
            peak <= most,
        )


def _measured(name: str) -> tuple[float, int, int, float]:
    """Return seconds, peak bytes, bytes of the float weights, and seconds of a processor."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            [PYTHON, "-c", MAIN, name],
            env=python_environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        waited = time.monotonic() - start
        raise MaseError(f"{name} was not done after {waited:.0f} s") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise MaseError(lines[-1])
    seconds, peak, weights, processor = json.loads(done.stdout)
    return float(seconds), int(peak), int(weights), float(processor)
