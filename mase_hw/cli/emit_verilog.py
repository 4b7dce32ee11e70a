"""`emit-verilog`: from a model to a SystemVerilog project, simulated and synthesized on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mase_hw.cli._options import (
    HARDWARE,
    Bus,
    BusWidth,
    Clock,
    Config,
    Device,
    Gated,
    Json,
    MaxBram,
    MaxDsp,
    MaxLut,
    Memory,
    MemoryStyle,
    MinSqnr,
    Model,
    Multipliers,
    OwnClock,
    Parallelism,
    PlainVerilog,
    Projects,
    Reload,
    ReloadHeadroom,
    Reuse,
    TargetFps,
    TargetInterval,
)
from mase_hw.cli._progress import Display


def register(app: typer.Typer) -> None:
    """Add the command `emit-verilog` to the application."""
    app.command("emit-verilog", rich_help_panel=HARDWARE)(emit_verilog)


def emit_verilog(
    model: Model,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write (default: build/NAME).")
    ] = None,
    config: Config = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights for MODEL: .mase (a whole graph), .safetensors or .pt."),
    ] = None,
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
    min_sqnr: MinSqnr = None,
    agreement: Gated = "channel",
    formats: Annotated[
        str | None,
        typer.Option(
            help="auto: formats that keep --min-sqnr (default: 30 dB), as fit finds them."
        ),
    ] = None,
    bus: Bus = None,
    bus_width: BusWidth = None,
    own_clock: OwnClock = False,
    verilog: PlainVerilog = False,
    projects: Projects = False,
    reload: Reload = None,
    parameters: Annotated[
        bool,
        typer.Option(
            "--parameters",
            help="Give the top parameters such as fc1_DATA_IN_0_PRECISION_0, checked.",
        ),
    ] = False,
    reload_headroom: ReloadHeadroom = 0,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Simulate, and compare every output bit.")
    ] = False,
    engine: Annotated[str, typer.Option(help="Simulation engine: native or cocotb.")] = "native",
    samples: Annotated[
        int | None, typer.Option(min=1, help="Inferences to simulate (default: the test set).")
    ] = None,
    stall: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Probability that a port stalls in a cycle.")
    ] = 0.0,
    synth: Annotated[
        str | None, typer.Option(help="Also synthesize with Yosys for a family: xcup, ecp5, ...")
    ] = None,
    json_output: Json = False,
) -> None:
    """Write MODEL as SystemVerilog; with --simulate, compare it with the model on every bit."""
    from mase_hw.api import emit_verilog as emit
    from mase_hw.cli._model import (
        load_subject,
        read_config,
        read_parallelism,
        with_targets,
    )
    from mase_hw.cli._report import check_tools, evaluate, print_report
    from mase_hw.deploy.bus import bus_options
    from mase_hw.deploy.deployment import CLOCK_MHZ, Deployment
    from mase_hw.emit.project import check_folder
    from mase_hw.errors import ConfigError

    display = Display(quiet=json_output)
    given = read_config(config)
    targets = {
        "target_interval": target_interval,
        "target_fps": target_fps,
        "clock": clock,
        "max_lut": max_lut,
        "max_dsp": max_dsp,
        "max_bram": max_bram,
    }
    around = Deployment(
        bus_options(bus, bus_width, own_clock=own_clock),
        verilog=verilog,
        projects=projects,
        clock_mhz=clock or CLOCK_MHZ,
    )
    if reload_headroom and reload is None:
        raise ConfigError("--reload-headroom belongs to weights that are loaded: add --reload")
    asked = None if parallelism is None else read_parallelism(parallelism)
    if output is not None:
        check_folder(output.absolute())
    check_tools(engine if simulate else None, synth)
    subject = load_subject(model, display, weights)
    settings = given.settle(subject, asked, memory, memory_style)
    mg, lanes = subject.mg, with_targets(settings.parallelism, targets)
    if formats is not None:
        from mase_hw.cli.fit import automatic

        found = automatic(subject, display, formats, given.quantize, lanes, min_sqnr)
        mg, lanes = found.graph, found.parallelism
    with display.stages(subject.mg.name):
        project = emit(
            mg,
            output=output or Path("build") / subject.mg.name,
            config=settings.quantize if formats is None else None,
            parallelism=lanes,
            multipliers=multipliers,
            memory=settings.memory,
            queues=settings.queues,
            device=device,
            reuse=reuse,
            min_sqnr=min_sqnr,
            agreement=agreement,
            deployment=around,
            reload=layers(reload),
            parameters=parameters,
            reload_headroom=reload_headroom,
        )
    report = evaluate(
        project,
        subject,
        display,
        simulate=simulate,
        engine=engine,
        samples=samples,
        stall=stall,
        target=synth,
        min_sqnr=min_sqnr,
        agreement=agreement,
    )
    if json_output:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        print_report(report, display)
    if report.simulation is not None and not report.simulation.is_right:
        raise typer.Exit(1)


def layers(given: str | None) -> list[str]:
    """Return the layers of `--reload`; `*` stands for all."""
    return ["*"] if given == "all" else given.split(",") if given else []
