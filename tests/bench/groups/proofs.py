"""What is proved of the cells for all times, and how long that takes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import ClassVar

from tests.bench.base import Benchmark, Row, timed

LIMIT_SECONDS, QUICK_SECONDS = 15, 5
BAR_MINUTES, PROCESSORS = 30, 2


class Proofs(Benchmark):
    """Properties of the cells, proved over the parameters that they give."""

    name: ClassVar[str] = "proofs"
    title: ClassVar[str] = "Proofs of the cells"
    default: ClassVar[bool] = False

    def __init__(self, names: Sequence[str | None] = (None,), samples: int | None = None) -> None:
        self._names, self._samples = names, samples

    def only(self, names: Sequence[str]) -> Proofs:
        """Return the benchmark of some cells."""
        return Proofs(names, self._samples)

    def sampled(self, samples: int) -> Proofs:
        """Return the benchmark with so many sets of parameters of each cell."""
        return Proofs(self._names, samples)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield a row for each cell of which something is not settled, and sums."""
        from mase_hw.proof import ProofReport, prove

        seconds = QUICK_SECONDS if quick else LIMIT_SECONDS
        samples = self._samples or (1 if quick else None)
        with timed() as elapsed:
            found = [
                row
                for name in self._names
                for row in prove(name, limit_seconds=seconds, samples=samples).rows
                if row.verdict.status in ("proved", "bounded", "refuted", "vacuous")
            ]
        cells = [list(rows) for _, rows in groupby(found, key=lambda row: row.cell)]
        for rows in cells:
            left = sum(row.verdict.status != "proved" for row in rows)
            if left:
                yield Row(f"{rows[0].cell}: claims proved", f"{len(rows) - left} of {len(rows)}")
        whole = sum(all(row.verdict.status == "proved" for row in rows) for rows in cells)
        report = ProofReport(tuple(found))
        proved, failed = report.count("proved"), len(report.refuted)
        sets = len({(row.cell, row.parameters) for row in found})
        yield Row(
            f"claims proved for all times, sets of parameters: {sets}",
            f"{proved:,} of {len(found):,} = {proved / len(found):.1%}",
            "100 %",
            proved == len(found),
        )
        yield Row("cells and parts proved whole", f"{whole} of {len(cells)}")
        yield Row("claims that fail", str(failed), "0", not failed)
        minutes, processors = elapsed.wall / 60, os.cpu_count() or 1
        yield Row(
            f"time of all, processors: {processors}",
            f"{minutes:.1f} minutes",
            f"<= {BAR_MINUTES} minutes on {PROCESSORS}",
            minutes <= BAR_MINUTES if processors <= PROCESSORS else None,
        )
