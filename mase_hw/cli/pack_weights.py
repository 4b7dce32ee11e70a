"""`pack-weights`: the image with which a running design takes the weights of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import HARDWARE, Project, command


@command(HARDWARE)
def pack_weights(
    project: Project, *, weights: Path, output: Annotated[Path, typer.Option("--output", "-o")]
) -> None:
    """Write the image that loads a checkpoint into the running design of DIR.

    Options:
        project: a project emitted with --reload.
        weights: checkpoint with the names of the model: .safetensors, .pt or .mase.
        output: image to write.
    """
    from mase_hw._results import check_result, result_file
    from mase_hw.deploy.weights import pack_weights as pack

    check_result(output)
    data = pack(project, weights)
    with result_file(output) as path:
        path.write_bytes(data)
    typer.echo(f"{output}: {len(data):,} bytes")
