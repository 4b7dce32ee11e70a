"""`emit-verilog`: from a model to a SystemVerilog project, simulated and synthesized on request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import (
    HARDWARE,
    Checks,
    Examples,
    Gate,
    HardwareOptions,
    Model,
    Output,
    Weights,
    command,
)
from mase_hw.cli._progress import Display


@command(HARDWARE)
def emit_verilog(
    model: Model,
    *,
    inputs: Examples = None,
    output: Output = None,
    weights: Weights = None,
    hardware: HardwareOptions,
    gate: Gate,
    formats: str | None = None,
    bus: str | None = None,
    bus_width: int | None = None,
    own_clock: bool = False,
    verilog: bool = False,
    projects: bool = False,
    reload: Annotated[str | None, typer.Option(metavar="NODES")] = None,
    parameters: bool = False,
    reload_headroom: Annotated[int, typer.Option(min=0, metavar="BITS")] = 0,
    checks: Checks,
    display: Display,
) -> None:
    """Write MODEL as SystemVerilog; with --simulate, compare it with the model on every bit.

    Options:
        output: folder to write (default: build/NAME).
        formats: `auto`: formats that keep --min-sqnr (default: 30 dB), as fit finds them.
        bus: bus ports: axi-stream, axi-memory (both with registers on AXI4-Lite) or uart.
        bus_width: with --bus: bits of every stream (default: one word a beat).
        own_clock: with --bus: a clock of its own for the design (port core_clk).
        verilog: also write plain Verilog-2005, with a testbench.
        projects: also write files of FuseSoC, Vivado, Quartus and LiteX.
        reload: layers whose weights can be loaded at run time: names with commas, or all.
        parameters: give the top parameters such as fc1_DATA_IN_0_PRECISION_0, checked.
        reload_headroom: bits of range to spare in weights of --reload.
    """
    from mase_hw.api import emit_verilog as emit
    from mase_hw.cli._model import load_subject, read_hardware
    from mase_hw.cli._report import check_tools, evaluate, print_report
    from mase_hw.deploy.bus import bus_options
    from mase_hw.deploy.deployment import CLOCK_MHZ, Deployment
    from mase_hw.emit.project import check_folder
    from mase_hw.errors import ConfigError

    tables = read_hardware(hardware)
    around = Deployment(
        bus_options(bus, bus_width, own_clock=own_clock),
        verilog=verilog,
        projects=projects,
        clock_mhz=hardware.targets.clock or CLOCK_MHZ,
    )
    if reload_headroom and reload is None:
        raise ConfigError("--reload-headroom belongs to weights that are loaded: add --reload")
    if output is not None:
        check_folder(output.absolute())
    check_tools(checks)
    subject = load_subject(model, display, weights, inputs)
    settings = tables.settle(subject)
    mg, lanes = subject.mg, settings.hardware.parallelism
    if formats is not None:
        from mase_hw.cli.fit import automatic

        fitted = automatic(subject, display, formats, tables.quantize, lanes, **vars(gate))
        mg, lanes = fitted.graph, fitted.parallelism
    with display.stages(subject.mg.name):
        project = emit(
            mg,
            output=output or Path("build") / subject.mg.name,
            config=settings.quantize if formats is None else None,
            **{**vars(settings.hardware), "parallelism": lanes},
            reuse=hardware.reuse,
            **vars(gate),
            deployment=around,
            reload=_layers(reload),
            parameters=parameters,
            reload_headroom=reload_headroom,
        )
    report = evaluate(project, subject, display, checks, gate)
    display.json(report.to_dict())
    print_report(report, display)
    if report.simulation is not None and not report.simulation.is_right:
        raise typer.Exit(1)


def _layers(names: str | None) -> list[str]:
    return ["*"] if names == "all" else names.split(",") if names else []
