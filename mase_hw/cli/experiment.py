"""`experiment`: a table and a figure from data and a seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import MEASURE, Json
from mase_hw.cli._progress import Display


def register(app: typer.Typer) -> None:
    """Add the command `experiment` to the application."""
    app.command("experiment", rich_help_panel=MEASURE)(experiment)


def experiment(
    name: Annotated[
        str | None, typer.Argument(help="Name of the experiment; without one all are listed.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer samples: less than three minutes on two cores.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of sampling, training and search.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to write (default: build/experiments/NAME)."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Run an experiment: its table as CSV, its figure as PNG and SVG."""
    from rich.table import Table

    from mase_hw.experiments import experiment as find
    from mase_hw.experiments import experiments, run_experiment, text

    display = Display(quiet=json_output)
    if name is None:
        entries = {item.name: item.title for item in experiments().values()}
        table = Table("experiment", "what it shows")
        for key, title in entries.items():
            table.add_row(key, title)
        display.console.print(table)
        if json_output:
            typer.echo(json.dumps(entries, indent=2))
        return
    found = find(name)
    title = f"{name}-quick" if quick else name
    folder = output or Path("build/experiments") / (f"{title}-seed{seed}" if seed else title)
    with display.progress(name) as advance:
        outcome = run_experiment(found, folder, quick=quick, progress=advance, seed=seed)
    table = Table(*outcome.columns, title=found.title)
    for row in outcome.rows:
        table.add_row(*(text(cell) for cell in row))
    display.console.print(table)
    display.console.print(outcome.note, markup=False)
    display.console.print(f"{folder / name}.csv, .png, .svg", markup=False)
    if json_output:
        rows = [dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows]
        typer.echo(json.dumps({"rows": rows, "note": outcome.note, "folder": str(folder)}))
