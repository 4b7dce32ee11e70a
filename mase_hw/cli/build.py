"""`build`: from a model to the bitstream of a board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import HARDWARE, Config, Gated, Json, MinSqnr, Model, Parallelism, Reuse
from mase_hw.cli._progress import Display


def register(app: typer.Typer) -> None:
    """Add the command `build` to the application."""
    app.command("build", rich_help_panel=HARDWARE)(build)


def build(
    model: Model,
    board: Annotated[
        str,
        typer.Option(help="ulx3s, icebreaker, tang-nano-20k, or a .toml file of your own board."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write (default: build/NAME).")
    ] = None,
    config: Config = None,
    parallelism: Parallelism = None,
    reuse: Reuse = False,
    min_sqnr: MinSqnr = None,
    agreement: Gated = "channel",
    clock: Annotated[
        float | None,
        typer.Option(
            help="Clock rate; the board must be able to make it (default: its own).", metavar="MHZ"
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Placements to try; the fastest is taken.")] = 1,
    json_output: Json = False,
) -> None:
    """Write MODEL behind the serial line of a board, and the bitstream OUTPUT.bit beside it."""
    from mase_hw.api import build as build_for
    from mase_hw.cli._model import load_subject, read_config, read_parallelism
    from mase_hw.deploy.board import load_board, with_clock
    from mase_hw.emit.project import check_folder

    display = Display(quiet=json_output)
    chosen, given = with_clock(load_board(board), clock), read_config(config)
    asked = None if parallelism is None else read_parallelism(parallelism)
    if output is not None:
        check_folder(output.absolute())
    subject = load_subject(model, display)
    settings = given.settle(subject, asked)
    explicit = asked if asked is not None else given.parallelism
    with display.stages(subject.mg.name) as say:
        project, report = build_for(
            subject.mg,
            board=chosen,
            output=output or Path("build") / subject.mg.name,
            config=settings.quantize,
            parallelism=explicit,
            queues=settings.queues,
            reuse=reuse,
            min_sqnr=min_sqnr,
            agreement=agreement,
            seeds=seeds,
            progress=say,
        )
    if json_output:
        typer.echo(json.dumps({"project": str(project.folder), **report.to_dict()}))
    for table in report.tables():
        display.console.print(table)
