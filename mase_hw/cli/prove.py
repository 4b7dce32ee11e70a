"""`prove`: properties of the cells, for all times and inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import HARDWARE, OptionalCount, command
from mase_hw.cli._progress import Display


@command(HARDWARE)
def prove(
    cell: str | None = None,
    *,
    design: Annotated[Path | None, typer.Option(metavar="DIR")] = None,
    seconds: Annotated[float, typer.Option(min=1.0)] = 60.0,
    samples: OptionalCount = None,
    start: bool = False,
    display: Display,
) -> None:
    """Prove that CELL loses, duplicates, reorders and invents no beat, and never hangs.

    Proofs are by induction, from any state before a reset; one that finds no end is inconclusive.
    With --design the cells of a project are proved with their parameters and the modules in it,
    and that they cannot wait for each other. Status 1 where a property fails.

    Options:
        cell: name of a cell, such as StreamFifo (default: all).
        design: prove the cells of an emitted project, with the modules in it.
        seconds: time limit of each search for a proof.
        samples: parameter sets of each cell, or cells of the design (default: all).
        start: prove instead that results after a reset do not depend on the state before it.
    """
    from mase_hw.errors import ConfigError, ProofError
    from mase_hw.proof import prove as run
    from mase_hw.proof import prove_design

    if cell is not None and design is not None:
        raise ConfigError("give a cell or --design, not both")
    if start and design is not None:
        raise ConfigError("--start proves cells of the library; leave --design out")

    with display.progress("proving") as advance:
        if design is not None:
            report = prove_design(design, limit_seconds=seconds, samples=samples, progress=advance)
        else:
            report = run(
                cell, limit_seconds=seconds, samples=samples, start=start, progress=advance
            )
    display.json(report.to_dict())
    for part in (report.table(), report.cell_table(), report.summary):
        display.console.print(part)
    if report.refuted:
        row = report.refuted[0]
        lines = [f"{row.cell} ({row.parameters}): {row.claim}: {row.said}", *row.verdict.fault]
        raise ProofError("\n  ".join(lines))
