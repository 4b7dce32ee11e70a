"""What a measurement leaves behind: tables as text and CSV, a figure, and how it was made."""

from __future__ import annotations

import csv
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mase_hw._results import result_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | int | float | None


@dataclass(frozen=True)
class Row:
    """A measured figure beside the bar that it should reach.

    Attributes:
        what: what was measured, with its conditions.
        measured: the figure, with its unit.
        bar: what it should reach; empty for a figure that is only reported.
        met: whether it does; None when there is no bar, or it could not be measured.
    """

    what: str
    measured: str
    bar: str = ""
    met: bool | None = None

    @property
    def verdict(self) -> str:
        """`met` as a word, empty for None."""
        return "" if self.met is None else "yes" if self.met else "no"


@dataclass(frozen=True)
class Table:
    """Rows under named columns; units are in the columns' names.

    Attributes:
        name: stem of the CSV file.
        title: one line above the table.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]

    def write_csv(self, folder: Path) -> Path:
        """Write `<name>.csv` with full precision."""
        path = folder / f"{self.name}.csv"
        with result_file(path) as whole, whole.open("w", newline="") as handle:
            writer = csv.writer(handle)
            writer.writerow(self.columns)
            writer.writerows(self.rows)
        return path

    def column(self, name: str) -> list[Any]:
        """Return one column, row by row."""
        index = self.columns.index(name)
        return [row[index] for row in self.rows]


@dataclass(frozen=True)
class Report:
    """The result of one `mase-hw profile` command.

    Attributes:
        name: stem of the figure's file.
        tables: the numbers.
        notes: sentences that the numbers need.
        draw: makes the figure, where there is one.
        setting: what a reader needs to judge the numbers, see `setting`.
    """

    name: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    draw: Callable[[], Figure] | None = None
    setting: dict[str, str] = field(default_factory=dict)

    def save(self, folder: Path) -> list[Path]:
        """Write every table as CSV, the setting, and the figure as PNG; return the files."""
        paths = [table.write_csv(folder) for table in self.tables]
        if self.draw is not None:
            figure = self.draw()
            paths.append(folder / f"{self.name}.png")
            with result_file(paths[-1]) as whole:
                figure.savefig(whole, dpi=130)
        setting = folder / f"{self.name}.txt"
        lines = [f"{key}: {value}" for key, value in self.setting.items()]
        with result_file(setting) as whole:
            whole.write_text("\n".join([*lines, "", *self.notes]) + "\n")
        return [*paths, setting]


def setting(command: str, device: torch.device) -> dict[str, str]:
    """Return what a reader needs to judge the numbers: date, machine, versions, command."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": name,
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
    }


def new_figure(columns: int, width: float = 5.5, height: float = 4.2) -> tuple[Figure, Any]:
    """Return a figure with a row of `columns` axes, without a window system."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for each in axes:
        each.grid(True, alpha=0.3)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def mebibytes(count: float) -> float:
    """Return bytes as MiB."""
    return count / 2**20


def _processor() -> str:
    """Return the processor's name and the number of its cores that this process may use."""
    info = Path("/proc/cpuinfo")
    names = (
        [
            line.split(":", 1)[1].strip()
            for line in info.read_text().splitlines()
            if "model name" in line
        ]
        if info.exists()
        else []
    )
    return f"{names[0] if names else platform.processor()}, {len(names) or '?'} cores"
