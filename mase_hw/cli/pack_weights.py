"""`pack-weights`: the image with which a running design takes the weights of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import HARDWARE


def register(app: typer.Typer) -> None:
    """Add the command `pack-weights` to the application."""
    app.command("pack-weights", rich_help_panel=HARDWARE)(pack_weights)


def pack_weights(
    project: Annotated[
        Path, typer.Argument(metavar="DIR", help="A project emitted with --reload.")
    ],
    weights: Annotated[
        Path,
        typer.Option(help="Checkpoint with the names of the model: .safetensors, .pt or .mase."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Image to write.")],
) -> None:
    """Write the image that loads a checkpoint into the running design of DIR."""
    from mase_hw._results import check_result, result_file
    from mase_hw.deploy.weights import pack_weights as pack

    check_result(output)
    data = pack(project, weights)
    with result_file(output) as made:
        made.write_bytes(data)
    typer.echo(f"{output}: {len(data):,} bytes")
