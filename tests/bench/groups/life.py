"""What a design does in a long life: resets in any cycle, and runs without an end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from tests.bench.base import Benchmark, Row
from tests.bench.mutant_designs import SOURCES, Source
from tests.bench.mutant_runs import Subject

# Resets of each design in each engine, half of them while ports pause.
RESETS = {"native": 500, "cocotb": 160}
BAR_RESETS = 1_000
CYCLES = 100_000_000
STALL = 0.2


class Life(Benchmark):
    """Small designs, reset at random moments and run for long."""

    name: ClassVar[str] = "life"
    title: ClassVar[str] = "Resets, and long runs"
    default: ClassVar[bool] = False

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        import torch

        torch.set_num_threads(1)
        part = 20 if quick else 1
        with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as scratch:
            folder = Path(scratch)
            projects = {name: _whole(source, folder) for name, source in SOURCES.items()}
            everything = 0
            for engine, count in RESETS.items():
                found = [_reset(project, engine, count // part) for project in projects.values()]
                followed, wrong = (sum(item) for item in zip(*found, strict=True))
                everything += followed
                yield Row(
                    f"resets in {engine}, {len(projects)} designs, memory reset too: followed by "
                    "whole inferences; wrong results",
                    f"{followed:,}; {wrong}",
                    "0 wrong",
                    not wrong,
                )
            yield Row(
                "resets followed by whole inferences, all",
                f"{everything:,}",
                f">= {BAR_RESETS:,}",
                everything >= BAR_RESETS,
            )
            yield from _long(projects["perceptron"], CYCLES // part)


def _whole(source: Source, folder: Path) -> Path:
    return Subject(source, folder).whole


def _reset(project: Path, engine: str, count: int) -> tuple[int, int]:
    """Return after how many resets whole inferences came, and how many streams were wrong."""
    from mase_hw.sim.simulate import simulate

    followed = wrong = 0
    for seed, stall in enumerate((0.0, STALL)):
        report = simulate(
            project, samples=8, engine=engine, resets=count // 2, stall=stall, seed=seed
        )
        followed += report.followed
        wrong += len(report.violations) + report.mismatches
    return followed, wrong


def _long(project: Path, cycles: int) -> Iterator[Row]:
    """Compare the simulator's memory in a long run and in one of a hundredth."""
    from mase_hw.sim.simulate import simulate

    once = simulate(project, samples=20).cycles
    few, many = (
        simulate(project, samples=20, repeats=2 * part // once) for part in (cycles // 100, cycles)
    )
    yield Row(
        f"memory of the simulator after {few.cycles:,} and {many.cycles:,} cycles, every beat "
        "compared",
        f"{few.peak_kib / 1024:.1f}, {many.peak_kib / 1024:.1f} MiB",
        "equal within 1 MiB",
        many.is_right and many.peak_kib - few.peak_kib < 1024,
    )
