"""`preflight`: everything that stands between a model and hardware, before anything is written."""

from __future__ import annotations

from typing import Any

import typer

from mase_hw.cli._options import (
    CHOICES,
    HARDWARE,
    Config,
    Examples,
    Gate,
    HardwareOptions,
    Model,
    command,
)
from mase_hw.cli._progress import Display


@command(HARDWARE)
def preflight(
    model: Model, *, inputs: Examples = None, config: Config = None, gate: Gate, display: Display
) -> None:
    """Report every problem of MODEL at once, each with its source line and the fix."""
    from mase_hw.cli._model import load_subject, read_config
    from mase_hw.emit.flow import quantize, to_hardware
    from mase_hw.emit.preflight import notes
    from mase_hw.emit.preflight import preflight as inspect
    from mase_hw.emit.warnings import sqnr_problems, warnings
    from mase_hw.passes.configuration import says_nothing

    subject = load_subject(model, display, inputs=inputs)
    settings = read_config(config).settle(subject)
    with display.stages(subject.mg.name):
        mg = quantize(subject.mg, settings.quantize)
        problems = inspect(mg)
        if not problems:
            to_hardware(mg, **vars(settings.hardware))
    configured = subject.mg.has_formats or not says_nothing(settings.quantize)
    remarks, warned = ([], []) if problems else (notes(mg), warnings(mg, configured=configured))
    problems += sqnr_problems(mg, gate.min_sqnr, gate.agreement)
    lists: Any = {"problems": problems, "notes": remarks, "warnings": warned}
    display.json({name: [*map(vars, items)] for name, items in lists.items()})
    if not problems:
        display.console.print(f"{subject.mg.name}: every node has hardware")
    for item in (*problems, *remarks):
        display.say(item)
    for note in warned:
        display.errors.print(f"warning: {note}", markup=False, soft_wrap=True)
    if problems:
        raise typer.Exit(1)


@command(CHOICES)
def estimate(
    model: Model, *, inputs: Examples = None, hardware: HardwareOptions, display: Display
) -> None:
    """Estimate LUT, FF, carry, DSP and BRAM of MODEL on UltraScale+, per node and in all."""
    from mase_hw.cli._model import load_subject, read_hardware
    from mase_hw.emit.flow import quantize, to_hardware, with_loops
    from mase_hw.hardware.estimate import estimate_nodes

    tables = read_hardware(hardware)
    subject = load_subject(model, display, inputs=inputs)
    settings = tables.settle(subject)
    with display.stages(subject.mg.name):
        if not subject.mg.is_quantized:
            mg = quantize(subject.mg, settings.quantize, reuse=hardware.reuse)
        else:
            mg = with_loops(subject.mg) if hardware.reuse else subject.mg
        report = estimate_nodes(to_hardware(mg, **vars(settings.hardware)))
    display.json(report.to_dict())
    display.console.print(report.table())
    display.console.print(f"interval {report.interval_cycles:,} cycles")
    if report.clock is not None:
        display.say(report.clock)
