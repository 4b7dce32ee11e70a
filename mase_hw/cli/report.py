"""`report`: one HTML page of an emitted project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import HARDWARE, OptionalCount, Project, command
from mase_hw.cli._progress import Display


@command(HARDWARE)
def report(
    project: Project,
    *,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE")] = None,
    inputs: Path | None = None,
    samples: OptionalCount = None,
    compare: Annotated[Path | None, typer.Option(metavar="DIR2")] = None,
) -> None:
    """Write one HTML page of the project in DIR: checks, graph, layers, ranges, timeline.

    Options:
        output: page to write (default: DIR.html).
        inputs: real inputs, .npz (default: the example inputs).
        samples: inputs that are compared layer by layer.
        compare: another project, shown beside the first.
    """
    from mase_hw.report import write_report

    display = Display()
    with display.stages(str(project)):
        path = write_report(project, output, inputs=inputs, samples=samples, compare=compare)
    display.say(f"{path} ({path.stat().st_size / 1024:,.0f} KiB)")
