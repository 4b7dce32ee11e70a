"""`preflight`: everything that stands between a model and hardware, before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import HARDWARE, Gated, MinSqnr, Model
from mase_hw.cli._progress import Display


def register(app: typer.Typer) -> None:
    """Add the command `preflight` to the application."""
    app.command("preflight", rich_help_panel=HARDWARE)(preflight)


def preflight(
    model: Model,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with number formats, parallelism, memory and queues."),
    ] = None,
    min_sqnr: MinSqnr = None,
    agreement: Gated = "channel",
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of lines.")
    ] = False,
) -> None:
    """Report every problem of MODEL at once, each with its source line and the fix."""
    from mase_hw.cli._model import load_subject, read_config
    from mase_hw.emit.flow import quantize, to_hardware
    from mase_hw.emit.preflight import notes
    from mase_hw.emit.preflight import preflight as inspect
    from mase_hw.emit.warnings import sqnr_problems, warnings
    from mase_hw.passes.configuration import says_nothing

    display = Display(quiet=json_output)
    subject = load_subject(model, display)
    settings = read_config(config).settle(subject)
    with display.stages(subject.mg.name):
        mg = quantize(subject.mg, settings.quantize)
        problems = inspect(mg)
        if not problems:
            to_hardware(
                mg,
                parallelism=settings.parallelism,
                memory=settings.memory,
                queues=settings.queues,
            )
    configured = subject.mg.has_formats or not says_nothing(settings.quantize)
    known, warned = ([], []) if problems else (notes(mg), warnings(mg, configured=configured))
    problems += sqnr_problems(mg, min_sqnr, agreement)
    if json_output:
        found = {
            "problems": [*map(vars, problems)],
            "notes": [*map(vars, known)],
            "warnings": [*map(vars, warned)],
        }
        typer.echo(json.dumps(found, indent=2))
    elif problems:
        for problem in problems:
            display.console.print(str(problem), markup=False, soft_wrap=True)
    else:
        display.console.print(f"{subject.mg.name}: every node has hardware")
        for note in known:
            display.console.print(str(note), markup=False, soft_wrap=True)
    for note in warned:
        display.errors.print(f"warning: {note}", markup=False, soft_wrap=True)
    if problems:
        raise typer.Exit(1)
