"""`experiment`: a table and a figure from data and a seed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import MEASURE, Output, command
from mase_hw.cli._progress import Display
from mase_hw.errors import ConfigError


@command(MEASURE)
def experiment(
    name: str | None = None,
    *,
    quick: bool = False,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    set: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")] = None,
    output: Output = None,
    display: Display,
) -> None:
    """Run an experiment: its table as CSV, its figure as PNG and SVG.

    Options:
        name: name of the experiment; without one all are listed.
        quick: smaller sizes: a few minutes of processor time.
        seed: seed of sampling, training and search.
        set: size to take in place of the experiment's, such as trials=50 or widths=[4, 8].
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
    title = "-".join(
        [name, *(["quick"] if quick else []), *(re.sub(r"\W+", "_", item) for item in set or ())]
    )
    folder = output or Path("build/experiments") / (f"{title}-seed{seed}" if seed else title)
    with display.progress(name) as advance:
        outcome = run_experiment(
            chosen, folder, quick=quick, progress=advance, seed=seed, settings=_sizes(set or ())
        )
    table = Table(*outcome.columns, title=chosen.title)
    for row in outcome.rows:
        table.add_row(*(text(cell) for cell in row))
    display.console.print(table)
    display.say(outcome.note)
    display.say(f"{folder / name}.csv, .png, .svg")
    rows = [dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows]
    display.json({"rows": rows, "note": outcome.note, "folder": str(folder)})


def _sizes(given: Iterable[str]) -> dict[str, object]:
    """Return sizes by name; a value is written as in TOML."""
    try:
        return tomllib.loads("\n".join(given))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--set takes KEY=VALUE, as in TOML; got {[*given]}: {error}") from error
