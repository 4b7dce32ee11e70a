"""`pack-weights`: the image with which a running design takes the weights of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command `pack-weights` to the application."""
    app.command("pack-weights")(pack_weights)


def pack_weights(
    project: Annotated[
        Path, typer.Argument(metavar="DIR", help="A project emitted with --reload.")
    ],
    weights: Annotated[
        Path,
        typer.Option(help="The checkpoint: .safetensors, .pt or .mase, names as in the model."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Image to write.")],
) -> None:
    """Write the image that loads the weights of a checkpoint into a design of DIR at run time."""
    from mase_hw._results import whole_file
    from mase_hw.deploy.weights import pack_weights as pack

    data = pack(project, weights)
    with whole_file(output) as made:
        made.write_bytes(data)
    typer.echo(f"{output}: {len(data):,} bytes")
