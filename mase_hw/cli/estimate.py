"""`estimate`: resources of a model per node, without synthesis."""

from __future__ import annotations

import json

import typer

from mase_hw.cli._options import (
    CHOICES,
    Clock,
    Config,
    Device,
    Json,
    MaxBram,
    MaxDsp,
    MaxLut,
    Memory,
    MemoryStyle,
    Model,
    Multipliers,
    Parallelism,
    Reuse,
    TargetFps,
    TargetInterval,
)
from mase_hw.cli._progress import Display


def register(app: typer.Typer) -> None:
    """Add the command `estimate` to the application."""
    app.command("estimate", rich_help_panel=CHOICES)(estimate)


def estimate(
    model: Model,
    config: Config = None,
    parallelism: Parallelism = None,
    multipliers: Multipliers = 64,
    target_interval: TargetInterval = None,
    target_fps: TargetFps = None,
    clock: Clock = None,
    max_lut: MaxLut = None,
    max_dsp: MaxDsp = None,
    max_bram: MaxBram = None,
    memory: Memory = None,
    memory_style: MemoryStyle = None,
    device: Device = "generic",
    reuse: Reuse = False,
    json_output: Json = False,
) -> None:
    """Estimate LUT, FF, carry, DSP and BRAM of MODEL on UltraScale+, per node and in all."""
    from mase_hw.cli._model import (
        load_subject,
        read_config,
        read_parallelism,
        with_targets,
    )
    from mase_hw.emit.flow import quantize, to_hardware, with_loops
    from mase_hw.hardware.estimate import estimate_nodes

    display = Display(quiet=json_output)
    targets = {
        "target_interval": target_interval,
        "target_fps": target_fps,
        "clock": clock,
        "max_lut": max_lut,
        "max_dsp": max_dsp,
        "max_bram": max_bram,
    }
    subject = load_subject(model, display)
    asked = None if parallelism is None else read_parallelism(parallelism)
    settings = read_config(config).settle(subject, asked, memory, memory_style)
    with display.stages(subject.mg.name):
        if not subject.mg.is_quantized:
            mg = quantize(subject.mg, settings.quantize, reuse=reuse)
        else:
            mg = with_loops(subject.mg) if reuse else subject.mg
        mg = to_hardware(
            mg,
            parallelism=with_targets(settings.parallelism, targets),
            multipliers=multipliers,
            memory=settings.memory,
            queues=settings.queues,
            device=device,
        )
        report = estimate_nodes(mg)
    if json_output:
        typer.echo(json.dumps(report.to_dict()))
        return
    display.console.print(report.table())
    display.console.print(f"interval {report.interval_cycles:,} cycles")
    if report.clock is not None:
        display.console.print(str(report.clock), highlight=False)
