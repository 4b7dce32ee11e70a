"""The kernels of the formats, on the CPU and, where there is one, on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from mase_hw.kernels.profile.kernels import rows
from tests.bench.base import Benchmark, Row


class Kernels(Benchmark):
    """Speed against memory, torch and torch.compile; memory and error of converted models."""

    name: ClassVar[str] = "kernels"
    title: ClassVar[str] = "MXINT8 kernels: ratios of medians, taken in turn in one run"

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures one by one, each after its correctness was checked."""
        return rows(quick=quick)
