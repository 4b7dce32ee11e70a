"""`experiment`: a table and a figure from data and a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import MEASURE, Output, command
from mase_hw.cli._progress import Display


@command(MEASURE)
def experiment(
    name: str | None = None,
    *,
    quick: bool = False,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    output: Output = None,
    display: Display,
) -> None:
    """Run an experiment: its table as CSV, its figure as PNG and SVG.

    Options:
        name: name of the experiment; without one all are listed.
        quick: fewer samples: less than three minutes on two cores.
        seed: seed of sampling, training and search.
        output: folder to write (default: build/experiments/NAME).
    """
    from rich.table import Table

    from mase_hw.experiments import experiment as find
    from mase_hw.experiments import experiments, run_experiment, text

    if name is None:
        entries = {item.name: item.title for item in experiments().values()}
        table = Table("experiment", "what it shows")
        for key, title in entries.items():
            table.add_row(key, title)
        display.console.print(table)
        display.json(entries)
        return
    chosen = find(name)
    title = f"{name}-quick" if quick else name
    folder = output or Path("build/experiments") / (f"{title}-seed{seed}" if seed else title)
    with display.progress(name) as advance:
        outcome = run_experiment(chosen, folder, quick=quick, progress=advance, seed=seed)
    table = Table(*outcome.columns, title=chosen.title)
    for row in outcome.rows:
        table.add_row(*(text(cell) for cell in row))
    display.console.print(table)
    display.say(outcome.note)
    display.say(f"{folder / name}.csv, .png, .svg")
    rows = [dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows]
    display.json({"rows": rows, "note": outcome.note, "folder": str(folder)})
