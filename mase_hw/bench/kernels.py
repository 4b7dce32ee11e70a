"""The kernels of the formats, on the CPU and, where there is one, on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from mase_hw.bench._base import Benchmark, Row

QUICK_ELEMENTS = 4 << 20


class Kernels(Benchmark):
    """Speed against memory, torch and torch.compile; memory and error of converted models."""

    name: ClassVar[str] = "kernels"
    title: ClassVar[str] = "MXINT8 kernels: ratios of medians, taken in turn in one run"

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures one by one, each after its correctness was checked."""
        from mase_hw.kernels.bench import rows as measure

        yield from measure(QUICK_ELEMENTS, 3, ()) if quick else measure()
