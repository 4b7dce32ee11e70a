"""`report`: one HTML page of an emitted project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import HARDWARE
from mase_hw.cli._progress import Display


def register(app: typer.Typer) -> None:
    """Add the command `report` to the application."""
    app.command("report", rich_help_panel=HARDWARE)(report)


def report(
    project: Annotated[Path, typer.Argument(metavar="DIR", help="An emitted project.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Page to write (default: DIR.html).", metavar="FILE"),
    ] = None,
    inputs: Annotated[
        Path | None, typer.Option(help="Real inputs, .npz (default: the example inputs).")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Inputs that are compared layer by layer.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Another project, shown beside the first.", metavar="DIR2")
    ] = None,
) -> None:
    """Write one HTML page of the project in DIR: checks, graph, layers, ranges, timeline."""
    from mase_hw.report import write_report

    display = Display()
    with display.stages(str(project)):
        path = write_report(project, output, inputs=inputs, samples=samples, compare=compare)
    display.console.print(
        f"{path} ({path.stat().st_size / 1024:,.0f} KiB)", highlight=False, soft_wrap=True
    )
