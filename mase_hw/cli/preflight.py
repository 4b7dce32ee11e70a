"""`preflight`: everything that stands between a model and hardware, before anything is written."""

from __future__ import annotations

import json

import typer

from mase_hw.cli._options import HARDWARE, Config, Gate, Json, Model, command
from mase_hw.cli._progress import Display


@command(HARDWARE)
def preflight(
    model: Model, *, config: Config = None, gate: Gate, json_output: Json = False
) -> None:
    """Report every problem of MODEL at once, each with its source line and the fix.

    Options:
        json_output: print one JSON object instead of lines.
    """
    from mase_hw.cli._model import load_subject, read_config
    from mase_hw.emit.flow import quantize, to_hardware
    from mase_hw.emit.preflight import notes
    from mase_hw.emit.preflight import preflight as inspect
    from mase_hw.emit.warnings import sqnr_problems, warnings
    from mase_hw.passes.configuration import says_nothing

    display = Display(quiet=json_output)
    subject = load_subject(model, display)
    settings = read_config(config).settle(subject)
    with display.stages(subject.mg.name):
        mg = quantize(subject.mg, settings.quantize)
        problems = inspect(mg)
        if not problems:
            to_hardware(mg, **vars(settings.hardware))
    configured = subject.mg.has_formats or not says_nothing(settings.quantize)
    remarks, warned = ([], []) if problems else (notes(mg), warnings(mg, configured=configured))
    problems += sqnr_problems(mg, gate.min_sqnr, gate.agreement)
    if json_output:
        entries = {
            "problems": [*map(vars, problems)],
            "notes": [*map(vars, remarks)],
            "warnings": [*map(vars, warned)],
        }
        typer.echo(json.dumps(entries, indent=2))
    elif problems:
        for problem in problems:
            display.console.print(str(problem), markup=False, soft_wrap=True)
    else:
        display.console.print(f"{subject.mg.name}: every node has hardware")
        for note in remarks:
            display.console.print(str(note), markup=False, soft_wrap=True)
    for note in warned:
        display.errors.print(f"warning: {note}", markup=False, soft_wrap=True)
    if problems:
        raise typer.Exit(1)
