"""`report`: one HTML page of an emitted project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._progress import Display


def register(app: typer.Typer) -> None:
    """Add the command `report` to the application."""
    app.command("report")(report)


def report(
    project: Annotated[Path, typer.Argument(metavar="DIR", help="An emitted project.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The page; DIR.html without it.", metavar="FILE"),
    ] = None,
    inputs: Annotated[
        Path | None, typer.Option(help="Real inputs (.npz); the example inputs without them.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="How many of them are compared layer by layer.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Another project, shown beside it.", metavar="DIR2")
    ] = None,
) -> None:
    """Write one HTML page of DIR: checks, graph, layers, ranges, timeline, waveforms."""
    from mase_hw.report import write_report

    display = Display()
    with display.stages(str(project)):
        path = write_report(project, output, inputs=inputs, samples=samples, compare=compare)
    display.console.print(
        f"{path} ({path.stat().st_size / 1024:,.0f} KiB)", highlight=False, soft_wrap=True
    )
