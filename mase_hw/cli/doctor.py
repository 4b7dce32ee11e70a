"""`doctor`: which tools are here, and the one command that installs what is missing."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor() -> None:
    """Say which tools were found, which version, and how to install the others."""
    from mase_hw.cli._progress import Display
    from mase_hw.doctor import run

    raise typer.Exit(run(Display().console))
