"""Searching architectures by the accuracy that is left after compression."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mase_hw._kinds import Table
from mase_hw.experiments._architectures import AGAIN, COMPRESSED, PLAIN, Architectures
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._subject import steps

STATES = (PLAIN, COMPRESSED, AGAIN)


class CompressionAware(Experiment):
    """No compression, compression after training, and training once more after it."""

    name = "compression-aware"
    title = "best so far: no compression, compressed, compressed and trained again"
    settings: ClassVar[Table] = {
        "trials": 100,
        "train": 512,
        "validation": 500,
        "epochs": 1,
        "sparsity": 0.5,
        "width": 4,
    }
    quick: ClassVar[Table] = {"trials": 30, "train": 256, "validation": 300}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        architectures = Architectures(size, self.seed)
        advance = steps(progress, len(STATES) * size["trials"])
        curves, rows = {}, []
        for state in STATES:
            curves[state], best = architectures.search("tpe", state, advance)
            rows.append((state, *best))
        return architectures.outcome("search", curves, rows)
