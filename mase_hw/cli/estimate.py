"""`estimate`: resources of a model per node, without synthesis."""

from __future__ import annotations

from mase_hw.cli._options import CHOICES, Examples, HardwareOptions, Model, command
from mase_hw.cli._progress import Display


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
