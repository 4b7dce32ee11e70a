"""Models that several tests of the flow share, and the `mase-hw` command in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw import cli
from mase_hw.emit.flow import quantize
from mase_hw.emit.project import Project
from mase_hw.graph import MaseGraph, trace
from mase_hw.models import perceptron

JET_TAGGER = (16, 64, 32, 32, 5)
EIGHT_BITS = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}


def seeded(*sizes: int, batch: int = 64) -> tuple[nn.Module, torch.Tensor]:
    """Return a perceptron and example inputs, the same at every call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return perceptron(*sizes).eval(), torch.randn(batch, sizes[0])


def quantized(*sizes: int, config: Mapping[str, Any] | None = None) -> MaseGraph:
    model, inputs = seeded(*sizes)
    return quantize(trace(model, inputs, name="perceptron"), config)


def by_type(**fields: Any) -> dict[str, Any]:
    return {"by": "type", "default": {"config": {"name": "fixed", **fields}}}


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    """Run `mase-hw` and return its status and output."""
    monkeypatch.setattr(sys, "argv", ["mase-hw", *arguments])
    capsys.readouterr()
    status: Any = 0
    try:
        cli.main()
    except SystemExit as end:
        status = end.code or 0
    return status, capsys.readouterr().out


def json_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> dict[str, Any]:
    """Run `mase-hw` with `--json`, which must succeed, and return the object it prints."""
    status, output = command(monkeypatch, capsys, *arguments, "--json")
    assert status == 0, output
    entry: dict[str, Any] = json.loads(output)
    return entry


def assert_bit_exact(report: mase_hw.api.SimulationReport, elements: int) -> None:
    assert report.bit_exact, report.first_mismatch or report.violations
    assert (report.mismatches, report.elements) == (0, elements)


def assert_as_predicted(project: Project, engine: str) -> None:
    """Without pauses bits and cycles are right; where one end pauses, the bits."""
    report = mase_hw.simulate(project, samples=5, seed=1, engine=engine)
    assert report.bit_exact, report.first_mismatch or report.violations
    assert report.interval_cycles == report.predicted_interval_cycles
    assert report.latency_cycles == report.predicted_latency_cycles
    for stalled in ("inputs", "outputs"):
        pressed = mase_hw.simulate(
            project, samples=5, seed=1, engine=engine, stall=0.4, stalled=stalled
        )
        assert pressed.bit_exact, pressed.first_mismatch or pressed.violations


def layer_file(folder: Path) -> str:
    """Write a factory of one rectified layer; say where it is."""
    path = folder / "net.py"
    path.write_text(
        "import torch\n"
        "def factory():\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU()), "
        "(torch.randn(16, 8),)\n"
    )
    return f"{path}:factory"
