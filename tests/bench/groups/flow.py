"""The main job on the topology of a jet tagger, 16-64-32-32-5, with weights from a seed."""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from mase_hw._kinds import Setting
from tests.bench.base import PYTHON, Benchmark, Row, median_seconds, python_environment, timed

if TYPE_CHECKING:
    from mase_hw.emit.project import Project
    from mase_hw.graph import MaseGraph

SIZES = (16, 64, 32, 32, 5)
PARALLELISMS = (1, 2, 4, 8, 16)
STALL = 0.3
LUT_BARS = {1: 2_000, 4: 4_500}
DSPS = {1: 4, 4: 64}

COLD_RUN = """
import sys, time
from pathlib import Path
from mase_hw.sim.simulate import simulate
start = time.perf_counter()
report = simulate(Path(sys.argv[1]), samples=200, engine="cocotb")
assert report.bit_exact
print(time.perf_counter() - start - report.seconds)
"""


class Flow(Benchmark):
    """Bit-exactness, cycles, speed of the tools, and resources."""

    name: ClassVar[str] = "flow"
    title: ClassVar[str] = "16-64-32-32-5 perceptron, 8-bit fixed point, p x p multipliers a layer"

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        import torch

        torch.set_num_threads(1)
        graph = jet_tagger()
        with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as name:
            projects = emit_all(graph, Path(name))
            for parallelism, project in projects.items():
                yield from exactness(parallelism, project, quick)
            yield emission_time(graph, Path(name))
            yield help_time()
            yield from cold_build(projects)
            yield from engine_speeds(projects, quick)
            yield from resources(projects)
            yield reference_speed(projects[4])
        yield test_suite(quick)


def jet_tagger() -> MaseGraph:
    """Return the quantised graph; the seed gives the weights and the example inputs."""
    import torch

    from mase_hw.emit.flow import quantize
    from mase_hw.graph import trace
    from mase_hw.models import perceptron

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return quantize(trace(perceptron(*SIZES).eval(), torch.randn(64, SIZES[0]), name="jet"))


def emit_all(graph: MaseGraph, folder: Path) -> dict[int, Project]:
    """Return a project for each parallelism."""
    from mase_hw.api import emit_verilog

    return {
        parallelism: emit_verilog(graph, output=folder / f"p{parallelism}", parallelism=parallelism)
        for parallelism in PARALLELISMS
    }


def bound(parallelism: int) -> int:
    """Return the cycles that the layer with the most work needs at the least."""
    return max(
        -(-inputs // parallelism) * -(-outputs // parallelism)
        for inputs, outputs in pairwise(SIZES)
    )


def exactness(parallelism: int, project: Project, quick: bool) -> Iterator[Row]:
    """Check both engines under random stalls, then the cycles without."""
    from mase_hw.sim.simulate import simulate

    for engine, count in (("native", 20_000), ("cocotb", 200)):
        samples = count // 20 if quick else count
        report = simulate(project.folder, samples=samples, engine=engine, stall=STALL, seed=1)
        yield Row(
            f"p {parallelism}: elements that differ, {samples:,} inferences, stalls, {engine}",
            f"{report.mismatches} of {report.elements:,}",
            "0",
            report.bit_exact,
        )
    report = simulate(project.folder, samples=200 if quick else 1_000)
    lowest, interval = bound(parallelism), report.interval_cycles or 0
    yield Row(
        f"p {parallelism}: interval simulated / bound (predicted)",
        f"{interval:g} / {lowest} ({report.predicted_interval_cycles})",
        "<= 1.02, as predicted",
        report.bit_exact
        and interval <= 1.02 * lowest
        and interval == report.predicted_interval_cycles,
    )
    latency, predicted = report.latency_cycles or 0, report.predicted_latency_cycles
    yield Row(
        f"p {parallelism}: latency simulated (predicted)",
        f"{latency:,} ({predicted:,})",
        "within 2",
        report.bit_exact and abs(latency - predicted) <= 2,
    )


def emission_time(graph: MaseGraph, folder: Path) -> Row:
    """Time the verb on a captured, quantised graph."""
    from mase_hw.api import emit_verilog

    seconds = median_seconds(
        lambda: emit_verilog(graph, output=folder / "timed", parallelism=4), repeats=5
    )
    return Row(
        "emission inside Python, after import", f"{seconds:.2f} s", "<= 0.5 s", seconds <= 0.5
    )


def help_time() -> Row:
    """Time the command that prints help."""
    command = [str(Path(sysconfig.get_path("scripts")) / "mase-hw"), "emit-verilog", "--help"]
    best = min(_cpu_of(command) for _ in range(5))
    return Row("mase-hw emit-verilog --help", f"{best:.2f} CPU s", "<= 0.7 CPU s", best <= 0.7)


def _cpu_of(command: list[str], **variables: str) -> float:
    with timed() as elapsed:
        subprocess.run(
            command, check=True, capture_output=True, env=python_environment(**variables)
        )
    return elapsed.cpu


def cold_build(projects: Mapping[int, Project]) -> Iterator[Row]:
    """Build from an empty cache, simulate 200 inferences in cocotb; then again, from the cache."""
    for parallelism in (1, 4):
        with tempfile.TemporaryDirectory(prefix="mase-hw-cache-") as cache:
            command = [PYTHON, "-c", COLD_RUN, str(projects[parallelism].folder)]
            cpu = _cpu_of(command, MASE_HW_CACHE=cache) - _cpu_of([PYTHON, "-c", IMPORTS])
            again = subprocess.run(
                command,
                check=True,
                capture_output=True,
                text=True,
                env=python_environment(MASE_HW_CACHE=cache),
            )
        yield Row(
            f"p {parallelism}: cold build and 200 cocotb inferences, after import",
            f"{cpu:.1f} CPU s",
            "<= 20 CPU s",
            cpu <= 20,
        )
        wall = float(again.stdout.split()[-1])
        yield Row(
            f"p {parallelism}: from the cache, before the first cycle",
            f"{wall:.2f} s",
            "<= 2 s",
            wall <= 2,
        )


IMPORTS = "import mase_hw.sim.simulate, mase_hw.emit.project"


def engine_speeds(projects: Mapping[int, Project], quick: bool) -> Iterator[Row]:
    """Compare the native engine with a plain loop and with cocotb, on the same Verilator model."""
    from statistics import median

    from mase_hw.sim.baseline import baseline_cycles_per_second
    from mase_hw.sim.simulate import simulate

    def speed(project: Project, **options: Setting) -> float:
        report = simulate(project.folder, **options)
        assert report.bit_exact
        return report.cycles_per_second

    for parallelism in (1, 4, 16):
        project = projects[parallelism]
        cycles = 400_000 if quick else 4_000_000
        samples = cycles // bound(parallelism) // (8 if parallelism == 16 else 1)
        native, plain = [], []
        for _ in range(5):
            native.append(speed(project, samples=samples))
            plain.append(baseline_cycles_per_second(project.folder, samples))
        ratio = median(native) / median(plain)
        yield Row(
            f"p {parallelism}: native engine / plain C++ loop, cycles per second",
            f"{median(native):,.0f} / {median(plain):,.0f} = {ratio:.2f}",
            ">= 0.8",
            ratio >= 0.8,
        )
        for stall in (0.0, STALL):
            fast = median(speed(project, samples=samples // 4, stall=stall) for _ in range(3))
            slow = median(
                speed(project, samples=max(4, samples // 200), stall=stall, engine="cocotb")
                for _ in range(3)
            )
            yield Row(
                f"p {parallelism}: native / cocotb, cycles per second, stall {stall:g}",
                f"{fast:,.0f} / {slow:,.0f} = {fast / slow:.0f}",
                ">= 50",
                fast / slow >= 50,
            )


def resources(projects: Mapping[int, Project]) -> Iterator[Row]:
    """Synthesize with DSPs allowed."""
    from mase_hw.hardware.synth import synthesize

    for parallelism, bar in LUT_BARS.items():
        total = synthesize(projects[parallelism].folder, "xcup").total
        yield Row(
            f"p {parallelism}: LUT (DSP, FF, BRAM), Yosys xcup",
            f"{total.lut:,} ({total.dsp}, {total.ff:,}, {total.bram:g})",
            f"<= {bar:,} ({DSPS[parallelism]})",
            total.lut <= bar and total.dsp == DSPS[parallelism],
        )


def reference_speed(project: Project) -> Row:
    """Time the integer reference on 20,000 inferences, one thread."""
    from mase_hw.emit.design import DesignSummary
    from mase_hw.emit.project import load_reference
    from mase_hw.sim.inputs import random_codes

    reference = load_reference(project.folder)
    codes = random_codes(DesignSummary.load(project.folder).inputs, 20_000, 0)
    rate = 20_000 / median_seconds(lambda: reference(codes), repeats=9)
    return Row(
        "integer reference, one thread", f"{rate:,.0f} inferences/s", ">= 300,000", rate >= 300_000
    )


def test_suite(quick: bool) -> Row:
    """Run the default tests of the checkout."""
    what, bar = "whole default test suite, two workers", "<= 10 minutes"
    root = Path(__file__).resolve().parents[3]
    if quick:
        return Row(what, "not measured: --quick", bar)
    command = [PYTHON, "-m", "pytest", "-q", "-n", "2"]
    with timed() as elapsed:
        run = subprocess.run(command, cwd=root, capture_output=True, env=python_environment())
    minutes = elapsed.wall / 60
    passed = run.returncode == 0
    verdict = "" if passed else ", with failures"
    return Row(what, f"{minutes:.1f} minutes{verdict}", bar, passed and minutes <= 10)
