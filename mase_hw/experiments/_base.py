"""The contract of an experiment: a table and a figure, from data and a seed."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, ClassVar

from mase_hw._checks import check_keys
from mase_hw._kinds import Record, Table
from mase_hw._results import result_file, result_folder
from mase_hw.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[int, int], None]
Cell = str | int | float
# Characters of small print that fit below a figure.
LINE = 100


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
    """One experiment.

    Attributes:
        name: the word a command uses.
        title: what it shows.
        settings: sizes of a run.
        quick: those of a run of a few minutes of processor time, where they differ.
        seed: added to the seeds of what is drawn, trained and searched.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    settings: ClassVar[Table] = {}
    quick: ClassVar[Table] = {}
    seed: int = 0

    @abstractmethod
    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        """Run it; the same settings give the same table.

        Args:
            folder: for studies, which are resumed, and further files.
            size: a value for each of `settings`.
            progress: called with (steps done, steps).
        """


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    quick: bool = False,
    progress: Progress = lambda done, total: None,
    seed: int = 0,
    settings: Table | None = None,
) -> Outcome:
    """Run an experiment and write its table (CSV) and figure (PNG and SVG) into a folder.

    Args:
        experiment: to run.
        folder: to write.
        quick: take the sizes of a short run.
        progress: called with (steps done, steps).
        seed: see `Experiment`.
        settings: sizes to take in place of the experiment's.

    Raises:
        ConfigError: for a setting that the experiment does not have, or one of another kind.
    """
    experiment = copy(experiment)
    experiment.seed = seed
    size: Record = {**experiment.settings, **(experiment.quick if quick else {})}
    check_keys(experiment.name, settings or {}, size)
    for key, value in (settings or {}).items():
        if not isinstance(value, type(size[key])):
            raise ConfigError(f"{experiment.name}: {key} is {value!r}; allowed: as {size[key]!r}")
        size[key] = value

    name = experiment.name
    with result_folder(folder, [f"{name}.{kind}" for kind in ("csv", "svg", "png")]):
        outcome = experiment.run(folder, size, progress)
        if size:
            told = ", ".join(f"{key} {value}" for key, value in size.items())
            outcome = replace(outcome, note=f"{outcome.note}; {told}")
            outcome.figure.supxlabel(fill(told, LINE), fontsize="small", color="gray")
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
