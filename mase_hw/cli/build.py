"""`build`: from a model to the bitstream of a board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import (
    HARDWARE,
    Config,
    Count,
    Examples,
    Gate,
    Megahertz,
    Model,
    Output,
    Parallelism,
    Project,
    Reuse,
    command,
)
from mase_hw.cli._progress import Display


@command(HARDWARE)
def build(
    model: Model,
    *,
    inputs: Examples = None,
    board: str,
    output: Output = None,
    config: Config = None,
    parallelism: Parallelism = None,
    reuse: Reuse = False,
    gate: Gate,
    clock: Megahertz = None,
    seeds: Count = 1,
    display: Display,
) -> None:
    """Write MODEL behind the serial line of a board, and the bitstream OUTPUT.bit beside it.

    Options:
        board: `ulx3s`, `icebreaker`, `tang-nano-20k`, or a .toml file of your own board.
        output: folder to write (default: build/NAME).
        clock: clock rate; the board must be able to make it (default: its own).
        seeds: placements to try; the fastest is taken.
    """
    from mase_hw.api import build as build_for
    from mase_hw.cli._model import load_subject, read_config
    from mase_hw.deploy.board import load_board, with_clock
    from mase_hw.emit.project import check_folder

    chosen, tables = with_clock(load_board(board), clock), read_config(config, parallelism)
    if output is not None:
        check_folder(output.absolute())
    subject = load_subject(model, display, inputs=inputs)
    settings = tables.settle(subject)
    with display.stages(subject.mg.name) as say:
        project, report = build_for(
            subject.mg,
            board=chosen,
            output=output or Path("build") / subject.mg.name,
            config=settings.quantize,
            parallelism=tables.parallelism,
            queues=settings.hardware.queues,
            reuse=reuse,
            **vars(gate),
            seeds=seeds,
            progress=say,
        )
    display.json({"project": str(project.folder), **report.to_dict()})
    for table in report.tables():
        display.console.print(table)


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
