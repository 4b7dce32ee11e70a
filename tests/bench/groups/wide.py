"""A wide perceptron: a build whose equal lanes share their code, and one in which they do not."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from tests.bench.base import PYTHON, Benchmark, Row, python_environment, timed

SIZES = (1024, 1024, 1024, 1024)
PARALLELISM = 32
QUICK_SIZES = (256, 256)
# Stated before lanes shared code, in other runs on a loaded machine.
STATED_BUILD_SECONDS, STATED_CYCLES_PER_SECOND = 78, 6_800

EMIT = """
import sys
import torch
from mase_hw.api import emit_verilog
from mase_hw.cells import multiply_accumulate
from mase_hw.models import perceptron

folder, shares, *sizes = sys.argv[1:]
if shares == "no":
    multiply_accumulate.SHARED_MULTIPLIERS = 1 << 30
torch.manual_seed(0)
sizes = [*map(int, sizes)]
emit_verilog(
    perceptron(*sizes).eval(), torch.randn(8, sizes[0]), output=folder, parallelism=PARALLELISM
)
"""
BUILD = """
import sys
from pathlib import Path
from mase_hw.emit.design import DesignSummary
from mase_hw.sim.build import build_model
build_model(Path(sys.argv[1]), DesignSummary.load(Path(sys.argv[1]))).executable("native")
"""
SIMULATE = """
import sys
from mase_hw.sim.simulate import simulate
for samples in (2, 10):
    report = simulate(sys.argv[1], samples=samples)
    assert report.bit_exact
print(report.cycles_per_second)
"""


class Wide(Benchmark):
    """Build and speed of thousands of multipliers; takes minutes, and runs when it is named."""

    name: ClassVar[str] = "wide"
    title: ClassVar[str] = "A perceptron of thousands of multipliers"
    default: ClassVar[bool] = False

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        sizes = QUICK_SIZES if quick else SIZES
        what = f"{'-'.join(map(str, sizes))}, p {PARALLELISM}"
        with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
            builds, speeds = [], []
            for shares in ("yes", "no"):
                project = str(Path(folder) / shares)
                emit = EMIT.replace("PARALLELISM", str(PARALLELISM))
                _python(emit, project, shares, *map(str, sizes))
                seconds, speed = _measure(project, folder)
                builds.append(seconds)
                speeds.append(speed)
        build, speed = builds[0] / builds[1], speeds[0] / speeds[1]
        yield Row(
            f"{what}: cold build, lanes share code / do not",
            f"{builds[0]:.1f} / {builds[1]:.1f} CPU s = {build:.2f} x",
        )
        yield Row(
            f"{what}: native cycles per second, lanes share code / do not",
            f"{speeds[0]:,.0f} / {speeds[1]:,.0f} = {speed:.2f} x",
        )
        if not quick:
            # Without a verdict: the other figures are not of this run.
            yield Row(
                f"the same, beside {STATED_BUILD_SECONDS} CPU s and {STATED_CYCLES_PER_SECOND:,} "
                "cycles per second that were stated before there were cells",
                f"{builds[0]:.1f} CPU s, {speeds[0]:,.0f} cycles/s",
                f"<= {STATED_BUILD_SECONDS / 2:g} CPU s, >= {2 * STATED_CYCLES_PER_SECOND:,}",
            )


def _measure(project: str, folder: str) -> tuple[float, float]:
    """Return the processor seconds of a build without a cache, and the cycles per second."""
    with tempfile.TemporaryDirectory(prefix="mase-hw-cache-", dir=folder) as cache:
        with timed() as build:
            _python(BUILD, project, cache=cache)
        # With everything in the cache, what is left are the imports.
        with timed() as imports:
            _python(BUILD, project, cache=cache)
        speed = float(_python(SIMULATE, project, cache=cache))
    return build.cpu - imports.cpu, speed


def _python(program: str, *arguments: str, cache: str | None = None) -> str:
    environment = python_environment(**({"MASE_HW_CACHE": cache} if cache else {}))
    return subprocess.run(
        [PYTHON, "-c", program, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    ).stdout
