"""`doctor`: which tools are here, and the one command that installs what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from mase_hw.cli._options import MEASURE, command

if TYPE_CHECKING:
    from rich.console import Console


@command(MEASURE)
def doctor() -> None:
    """Show which tools are found, in which version, and how to install the others."""
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

    table = Table(title="Kernels, best first")
    for heading in ("format", "kernel", "offers", "runs here"):
        table.add_column(heading, overflow="fold")
    for name, kernels in implementations().items():
        for item in kernels:
            runs = item.reason or "[green]yes[/]"
            table.add_row(name, item.name, ", ".join(item.operations), runs)
    console.print(table)
