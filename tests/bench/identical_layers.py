"""Twelve identical residual blocks against one: emission, and a Verilator build without caches."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.base import PYTHON, Row, python_environment, timed

BLOCKS = 12
ROUNDS = 5
MEASURED = (
    "a process that traces, quantizes and emits",
    "trace, passes and emission, after import",
    "of these, from the quantized graph on",
    "cold Verilator build",
)
BARS = (1.5, 1.5, None, 2.0)
# Emits, and says how many processor seconds that took after all imports: from the model, and from
# the quantized graph.
EMIT = """
import sys, time
import torch
from mase_hw.api import emit_verilog
from mase_hw.emit.flow import quantize
from mase_hw.graph import trace
from mase_hw.models import ResidualBlock

torch.manual_seed(0)
torch.set_num_threads(1)
config = {"by": "type", "default": {"config": {
    "name": "fixed", "data_in_width": 8, "data_in_frac_width": 5, "weight_width": 8,
    "weight_frac_width": 7, "bias_width": 8, "bias_frac_width": 7,
}}}
blocks = torch.nn.Sequential(*(ResidualBlock(8, 8) for _ in range(int(sys.argv[1])))).eval()
start = time.process_time()
mg = quantize(trace(blocks, torch.randn(4, 8, 8, 8), name="blocks"), config)
middle = time.process_time()
emit_verilog(mg, output=sys.argv[2], parallelism=4)
end = time.process_time()
print(end - start, end - middle)
"""
SIMULATE = """
import sys
from mase_hw.sim.simulate import simulate
assert simulate(sys.argv[1], samples=20, stall=0.2).bit_exact
"""
BUILD = """
import sys
from pathlib import Path
from mase_hw.emit.design import DesignSummary
from mase_hw.sim.build import build_model
build_model(Path(sys.argv[1]), DesignSummary.load(Path(sys.argv[1]))).executable("native")
"""


def identical_layers() -> Iterator[Row]:
    """Compare processor seconds, after a simulation of both designs was bit-exact."""
    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
        projects = {count: str(Path(folder) / f"blocks-{count}") for count in (1, BLOCKS)}
        emissions: dict[int, list[tuple[float, ...]]] = {count: [] for count in projects}
        for _ in range(ROUNDS):
            for count, project in projects.items():
                emissions[count].append(_emission(count, project))
        for project in projects.values():
            _python(SIMULATE, project)
        builds = {count: _build(project, folder) for count, project in projects.items()}
    one, many = (
        [*map(statistics.median, zip(*emissions[count], strict=True)), builds[count]]
        for count in projects
    )
    for what, few, more, bar in zip(MEASURED, one, many, BARS, strict=True):
        yield Row(
            f"residual blocks, {BLOCKS} against 1: {what}",
            f"{more / few:.2f} x ({more:.1f} and {few:.1f} CPU s)",
            f"<= {bar:g} x" if bar else "",
            more <= bar * few if bar else None,
        )


def _emission(count: int, project: str) -> tuple[float, float, float]:
    """Return the processor seconds of the process, and of what it says that it did."""
    with timed() as process:
        whole, emission = map(float, _python(EMIT, str(count), project).split())
    return process.cpu, whole, emission


def _build(project: str, folder: str) -> float:
    """Return the processor seconds of a build with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="mase-hw-cache-", dir=folder) as cache:
        with timed() as build:
            _python(BUILD, project, cache=cache)
        # With everything in the cache, what is left are the imports.
        with timed() as imports:
            _python(BUILD, project, cache=cache)
    return build.cpu - imports.cpu


def _python(program: str, *arguments: str, cache: str | None = None) -> str:
    environment = python_environment(**({"MASE_HW_CACHE": cache} if cache else {}))
    done = subprocess.run(
        [PYTHON, "-c", program, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    return done.stdout
