"""`doctor`: which tools are here, and the one command that installs what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor() -> None:
    """Say which tools were found, which version, and how to install the others."""
    from mase_hw.cli._progress import Display
    from mase_hw.doctor import run

    console = Display().console
    status = run(console)
    if status == 0:
        _list_kernels(console)
    raise typer.Exit(status)


def _list_kernels(console: Console) -> None:
    """Say which kernels run here, best first, and why the others do not."""
    from rich.table import Table

    from mase_hw.kernels import implementations

    table = Table("format", "kernel", "runs here", title="Kernels, best first")
    for name, found in implementations().items():
        for item in found:
            table.add_row(name, item.name, "[green]yes[/]" if not item.reason else item.reason)
    console.print(table)
