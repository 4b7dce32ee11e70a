"""What it takes to add a unit, the size of the sources, and what cells predict of networks."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tests.bench.additions import edited_files
from tests.bench.base import Benchmark, Row
from tests.bench.groups.branches import prepare, tool_times

if TYPE_CHECKING:
    from tests.bench.groups.branches import Network

# Lines of operators with their helpers and of SystemVerilog, before there were cells.
STATED_PYTHON, STATED_RTL = 8_821, 8_257
LESS = 0.8
# Operators, and what only they are made of.
PYTHON_FOLDERS = ("ops", "arithmetic", "approximation")
# What a cell says of itself; an operator that says it says it twice.
TIMING = (
    "busy_cycles",
    "consumption",
    "interval",
    "interval_cycles",
    "latency",
    "latency_cycles",
    "motion",
    "needs",
    "offered",
    "room",
    "schedule",
    "taken",
    "work_cycles",
)
QUICK = ("letter-mlp", "magic-mlp")
CHEAP = (*QUICK, "har-cnn1d", "mnist-cnn", "mnist-lenet", "fashion-resnet8")
SAMPLES = 20


class Cells(Benchmark):
    """Files that an addition edits, lines, and predicted against simulated cycles."""

    name: ClassVar[str] = "cells"
    title: ClassVar[str] = "Units of hardware, described once"

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        import torch

        torch.set_num_threads(1)
        package = Path(str(files("mase_hw")))
        yield from edited_files(package)
        yield from lines(package)
        found = timing_overrides(package / "ops")
        listed = f": {', '.join(found)}" if found else ""
        yield Row(
            "hand-written timing overrides in operators", f"{len(found)}{listed}", "0", not found
        )
        with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
            for name in QUICK if quick else CHEAP:
                network = prepare(name, Path(folder))
                yield from cycles(network)
                yield from times(network, Path(folder))


def lines(package: Path) -> Iterator[Row]:
    """Count lines, of operators without and with the cells that hold their timing now."""
    operators = sum(_lines(package / name, "*.py") for name in PYTHON_FOLDERS)
    cells = _lines(package / "cells", "*.py")
    bar = int(LESS * STATED_PYTHON)
    yield Row(
        f"lines of Python in {', '.join(PYTHON_FOLDERS)} (with cells); {STATED_PYTHON:,} before "
        "there were cells, with fewer functions and formats",
        f"{operators:,} ({operators + cells:,})",
        f"<= {bar:,}",
        operators + cells <= bar,
    )
    modules, bar = _lines(Path(str(files("mase_hw.rtl"))), "*.sv"), int(LESS * STATED_RTL)
    yield Row(
        f"lines of SystemVerilog; {STATED_RTL:,} before there were cells",
        f"{modules:,}",
        f"<= {bar:,}",
        modules <= bar,
    )


def _lines(folder: Path, pattern: str) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.rglob(pattern))


def timing_overrides(folder: Path) -> list[str]:
    """Return the methods of operators that say what their cells say, as `file.method`."""
    return [
        f"{path.stem}.{node.name}"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name in TIMING
    ]


def cycles(network: Network) -> Iterator[Row]:
    """Compare the cycles of a simulation without pauses with the prediction."""
    from mase_hw.sim.simulate import simulate

    inputs = network.trained.split.test_inputs[:SAMPLES]
    report = simulate(network.project.folder, inputs)
    for what, predicted, found in (
        ("interval", report.predicted_interval_cycles, report.interval_cycles),
        ("latency", report.predicted_latency_cycles, report.latency_cycles),
    ):
        yield Row(
            f"{network.name}: {what} predicted / simulated",
            f"{predicted:,} / {found or 0:,g}",
            "equal",
            report.bit_exact and predicted == found,
        )


def times(network: Network, folder: Path) -> Iterator[Row]:
    """Time emission and a cold build; a shared machine bears no comparison with other runs."""
    seconds, cpu = tool_times(network, folder)
    yield Row(f"{network.name}: trace, passes and emission, after import", f"{seconds:.1f} s")
    yield Row(f"{network.name}: cold Verilator build", f"{cpu:.1f} CPU s")
