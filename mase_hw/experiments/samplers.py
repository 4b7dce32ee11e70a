"""Samplers on a search of architectures, every one of which is trained."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mase_hw._kinds import Table
from mase_hw.experiments._architectures import PLAIN, Architectures
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._subject import steps

SAMPLERS = ("random", "grid", "tpe")


class Samplers(Experiment):
    """Best accuracy on validation samples so far, one curve a sampler."""

    name = "samplers"
    title = "best accuracy so far against trial: random, grid, TPE"
    settings: ClassVar[Table] = {"trials": 100, "train": 1024, "validation": 500, "epochs": 1}
    quick: ClassVar[Table] = {"train": 256, "validation": 300}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        architectures = Architectures(size, self.seed)
        advance = steps(progress, len(SAMPLERS) * size["trials"])
        curves, rows = {}, []
        for name in SAMPLERS:
            curves[name], best = architectures.search(name, PLAIN, advance)
            rows.append((name, *best))
        return architectures.outcome("sampler", curves, rows)
