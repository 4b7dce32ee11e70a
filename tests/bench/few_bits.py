"""Registered networks of one, two and four bits: the module's own classes, and what they take."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.base import Row

if TYPE_CHECKING:
    from mase_hw.emit.project import Project
    from mase_hw.models import Trained
    from mase_hw.sim.simulate import SimulationReport

# Test samples that are simulated.
NETWORKS: Mapping[str, int] = {
    "mnist-tfc": 2000,
    "mnist-sfc": 2000,
    "mnist-lfc": 2000,
    "mnist-tfc-w2a2": 2000,
    "mnist-sfc-w2a2": 2000,
    "mnist-lfc-w2a2": 2000,
    "fashion-cnv": 500,
    "fashion-cnv-w2a2": 500,
    "fashion-mobilenet": 200,
}
MULTIPLIERS = 128
# Test samples of a quick run, and those of the one with stalls.
QUICK_SAMPLES, STALLED, STALL = 50, 4, 0.3
# How far an accuracy may lie from that of training.
BAR_POINTS = 0.5


def few_bits_networks(quick: bool) -> Iterator[Row]:
    """Yield, for each network, differing elements, classes, accuracies, cycles and resources."""
    from mase_hw.api import emit_verilog, simulate, synthesize
    from mase_hw.graph import trace
    from mase_hw.models import models

    for name, samples in NETWORKS.items():
        model = models()[name]
        trained = model.load()
        graph = trace(trained.module, trained.example_inputs, name="network")
        with tempfile.TemporaryDirectory() as folder:
            project = emit_verilog(
                graph,
                output=Path(folder) / "network",
                config=model.config,
                parallelism=model.parallelism,
                multipliers=MULTIPLIERS,
            )
            inputs = trained.split.test_inputs[: QUICK_SAMPLES if quick else samples]
            stalled = simulate(project, inputs[:STALLED], samples=STALLED, stall=STALL)
            report = simulate(project, inputs, samples=len(inputs))
            yield _exactness(name, project, stalled, report)
            yield _classes(name, trained, report)
            if not quick:
                total = synthesize(project).total
                found = f"{total.lut:,} / {total.dsp:,} / {total.bram:g}"
                yield Row(f"{name}: LUT / DSP / BRAM, Yosys xcup", found, "", None)


def _exactness(
    name: str, project: Project, stalled: SimulationReport, report: SimulationReport
) -> Row:
    elements = stalled.elements + report.elements
    cycles = f"{project.design.interval_cycles:,} / {report.interval_cycles or 0:,g}"
    return Row(
        f"{name}: elements that differ; interval predicted / simulated",
        f"{stalled.mismatches + report.mismatches} of {elements:,}; {cycles}",
        "0; equal",
        stalled.bit_exact and report.bit_exact and report.as_predicted,
    )


def _classes(name: str, trained: Trained, report: SimulationReport) -> Row:
    """Compare classes of the RTL with those of torch's own module, in float32."""
    import torch

    count = report.inferences
    inputs, labels = trained.split.test_inputs[:count], trained.split.test_labels[:count]
    with torch.no_grad():
        expected = trained.module(inputs).argmax(1)
    (scores,) = report.values.values()
    found = scores.reshape(count, -1).argmax(1)
    own, here = (float((item == labels).double().mean()) for item in (expected, found))
    same = float((found == expected).double().mean())
    return Row(
        f"{name}: accuracy torch / RTL, {count:,} test samples; equal classes",
        f"{own:.2%} / {here:.2%}; {same:.2%}",
        f"within {BAR_POINTS:g} points; 100 %",
        abs(own - here) * 100 <= BAR_POINTS and same == 1,
    )
