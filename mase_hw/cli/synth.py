"""`synth`: resources of an emitted project, through Yosys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._progress import Display


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("synth")(synth)


def synth(
    project: Annotated[Path, typer.Argument(metavar="DIR", help="An emitted project.")],
    target: Annotated[str, typer.Option(help="xcup (UltraScale+) or ecp5.")] = "xcup",
    dsp: Annotated[bool, typer.Option(help="Allow DSP blocks.")] = True,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Synthesize DIR and print LUT, FF, carry, DSP and BRAM per node and in all."""
    from mase_hw.cli._report import steps
    from mase_hw.hardware.synth import synthesize

    display = Display(quiet=json_output)
    with display.progress(f"synthesizing for {target}") as advance:
        report = synthesize(project, target, dsp=dsp, progress=steps(advance))
    if json_output:
        typer.echo(report.to_json())
    else:
        display.console.print(report.table())
