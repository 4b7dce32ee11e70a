"""`synth`: resources of an emitted project through Yosys, and its clock rate through nextpnr."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mase_hw.cli._options import HARDWARE
from mase_hw.cli._progress import Display

if TYPE_CHECKING:
    from mase_hw.hardware.route import RouteReport


def register(app: typer.Typer) -> None:
    """Add the command `synth` to the application."""
    app.command("synth", rich_help_panel=HARDWARE)(synth)


def synth(
    project: Annotated[Path, typer.Argument(metavar="DIR", help="An emitted project.")],
    target: Annotated[
        str,
        typer.Option(help="FPGA family: xcup (UltraScale+), ecp5, ice40, nexus, machxo2 or gowin."),
    ] = "xcup",
    dsp: Annotated[bool, typer.Option(help="Allow DSP blocks.")] = True,
    route: Annotated[
        bool, typer.Option("--route", help="Also place and route: clock rate, critical path.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(help="With --route: device of the family.", metavar="NAME")
    ] = None,
    speed: Annotated[
        str | None, typer.Option(help="With --route: speed grade.", metavar="GRADE")
    ] = None,
    package: Annotated[
        str | None, typer.Option(help="With --route: package.", metavar="NAME")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="With --route: placements to try; the median counts.")
    ] = None,
    clock: Annotated[
        float | None,
        typer.Option(
            help="With --route: clock to reach; status 1 where no placement does.", metavar="MHZ"
        ),
    ] = None,
    bitstream: Annotated[
        Path | None,
        typer.Option(help="With --route: write a bitstream whose ports are pins.", metavar="FILE"),
    ] = None,
    pins: Annotated[
        Path | None,
        typer.Option(
            help="With --route: pins of a board, in the family's format (LPF, PCF, PDC, CST).",
            metavar="FILE",
        ),
    ] = None,
    serial_ports: Annotated[
        bool,
        typer.Option(
            "--serial-ports", help="With --route: put all ports behind two pins, to measure."
        ),
    ] = False,
    rip_up: Annotated[
        bool,
        typer.Option("--rip-up", help="With --route: route anew what misses the clock; slow."),
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Synthesize the project in DIR: LUT, FF, carry, DSP and BRAM per node and in all."""
    from mase_hw.cli._report import steps
    from mase_hw.errors import ConfigError
    from mase_hw.hardware.synth import synthesize

    display = Display(quiet=json_output)
    options = {
        "device": device,
        "speed": speed,
        "package": package,
        "seeds": seeds,
        "clock": clock,
        "bitstream": bitstream,
        "pins": pins,
        "serial-ports": serial_ports or None,
        "rip-up": rip_up or None,
    }
    if not route:
        given = [f"--{name}" for name, value in options.items() if value is not None]
        if given:
            raise ConfigError(f"{given[0]} belongs to place and route: add --route")
        with display.progress(f"synthesizing for {target}") as advance:
            report = synthesize(project, target, dsp=dsp, progress=steps(advance))
        if json_output:
            typer.echo(report.to_json())
        else:
            display.console.print(report.table())
            if told := other_device(project, target):
                display.console.print(told, highlight=False, soft_wrap=True)
        return
    from mase_hw.hardware.route import route as place_and_route

    with display.stages(target) as say:
        routed = place_and_route(
            project,
            target,
            device=device,
            speed=speed,
            package=package,
            dsp=dsp,
            seeds=1 if seeds is None else seeds,
            clock_mhz=clock,
            bitstream=bitstream,
            constraints=pins,
            serial_ports=serial_ports,
            rip_up=rip_up,
            progress=say,
        )
    _print(routed, display, json_output)


def other_device(project: Path, target: str) -> str:
    """Return what a design that uses no device's blocks would take with those of its target.

    Empty where there is nothing to say: the target's blocks are used, or nothing is saved.
    """
    from mase_hw.cells import Device
    from mase_hw.emit.project import load_graph
    from mase_hw.errors import MaseError
    from mase_hw.graph.metadata import metadata
    from mase_hw.hardware.estimate import estimate, on_device

    if target not in Device.names():
        return ""
    try:
        mg, _ = load_graph(project)
    except MaseError:
        return ""
    used = {known.device for node in mg.nodes if (known := metadata(node).hardware)}
    if target in used:
        return ""
    now, then = estimate(mg), estimate(on_device(mg, target))
    if then.lut >= now.lut and then.dsp >= now.dsp:
        return ""
    return (
        f"emit-verilog --device {target} uses that family's blocks: about {then.lut:,.0f} LUT "
        f"for {now.lut:,.0f}, {then.dsp:,.0f} DSP for {now.dsp:,.0f} (estimated)"
    )


def _print(report: RouteReport, display: Display, json_output: bool) -> None:
    """Print a report.

    Raises:
        RoutingError: when its clock is not met.
    """
    if json_output:
        typer.echo(report.to_json())
    for table in (report.synthesis.table(), *report.tables()):
        display.console.print(table)
    report.check_clock()
