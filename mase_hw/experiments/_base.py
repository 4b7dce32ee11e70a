"""The contract of an experiment: a table and a figure, from data and a seed."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from mase_hw._results import result_file, result_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[int, int], None]
Cell = str | int | float


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    Attributes:
        columns: headings of the table.
        rows: its rows.
        figure: the same, drawn.
        note: conditions that belong beside the table: samples, standard errors, seeds.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    figure: Figure
    note: str


class Experiment(ABC):
    """One experiment, one file of this folder.

    Attributes:
        name: the word a command uses.
        title: what it shows.
        seed: added to the seeds of what is drawn, trained and searched.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    seed: int = 0

    @abstractmethod
    def run(self, folder: Path, *, quick: bool, progress: Progress) -> Outcome:
        """Run it; the same settings give the same table.

        Args:
            folder: for studies, which are resumed, and further files.
            quick: settings of less than three minutes on two cores.
            progress: called with (steps done, steps).
        """


def run_experiment(
    experiment: Experiment, folder: Path, *, quick: bool, progress: Progress, seed: int = 0
) -> Outcome:
    """Run an experiment and write its table (CSV) and figure (PNG and SVG) into a folder."""
    experiment = copy(experiment)
    experiment.seed = seed

    name = experiment.name
    with result_folder(folder, [f"{name}.{kind}" for kind in ("csv", "svg", "png")]):
        outcome = experiment.run(folder, quick=quick, progress=progress)
        _write(folder, name, outcome)
    return outcome


def _write(folder: Path, name: str, outcome: Outcome) -> None:
    import matplotlib as mpl

    with result_file(folder / f"{name}.csv") as made, made.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(outcome.columns)
        table.writerows([text(cell) for cell in row] for row in outcome.rows)
    # Fixed identifiers and no date: the same figure gives the same bytes.
    with (
        result_file(folder / f"{name}.svg") as made,
        mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}),
    ):
        outcome.figure.savefig(made, metadata={"Date": None})
    with result_file(folder / f"{name}.png") as made:
        outcome.figure.savefig(made, dpi=150)


def text(cell: Cell) -> str:
    """Return a cell as the table shows it."""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
