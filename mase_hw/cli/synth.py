"""`synth`: resources of an emitted project through Yosys, and its clock rate through nextpnr."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mase_hw.cli._options import HARDWARE, Json
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
    liberty: Annotated[
        Path | None,
        typer.Option(help="Standard cells of an ASIC, in Liberty: area per node.", metavar="FILE"),
    ] = None,
    macro_bits: Annotated[
        int | None,
        typer.Option(
            min=0,
            show_default="32768",
            help="With --liberty: the most bits of a memory that becomes gates.",
        ),
    ] = None,
    energy: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --liberty: dynamic energy of so many example inputs.", metavar="COUNT"
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Synthesize the project in DIR: LUT, FF, carry, DSP and BRAM per node and in all.

    With --liberty: cells and area in the units of that library, an estimate without wires.
    """
    from mase_hw.cli._report import steps
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
    cells = {"macro-bits": macro_bits, "energy": energy}
    if liberty is not None:
        other = {
            "target": None if target == "xcup" else target,
            "no-dsp": None if dsp else True,
            "route": route or None,
            **options,
        }
        _check_none(other, "belongs to an FPGA: leave it or --liberty out")
        _print_gates(project, liberty, macro_bits, energy, display, json_output)
        return
    _check_none(cells, "belongs to standard cells: add --liberty FILE")
    if not route:
        _check_none(options, "belongs to place and route: add --route")
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
    """Note on resources of a design for a generic device with the blocks of its target.

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


def _check_none(options: Mapping[str, object], told: str) -> None:
    """Raise where an option is given.

    Raises:
        ConfigError: with the first one.
    """
    from mase_hw.errors import ConfigError

    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"--{name} {told}")


def _print_gates(
    project: Path,
    liberty: Path,
    macro_bits: int | None,
    energy: int | None,
    display: Display,
    json_output: bool,
) -> None:
    """Print what a project takes of a library of cells."""
    from mase_hw.cli._report import steps
    from mase_hw.hardware.gates import MACRO_BITS, synthesize_gates
    from mase_hw.sim.energy import count_energy

    most = MACRO_BITS if macro_bits is None else macro_bits
    with display.progress(f"synthesizing with {liberty.name}") as advance:
        gates = synthesize_gates(project, liberty, macro_bits=most, progress=steps(advance))
        counted = count_energy(project, gates, samples=energy) if energy else None
    if json_output:
        found = gates.to_dict() | ({"energy": counted.to_dict()} if counted else {})
        typer.echo(json.dumps(found))
        return
    for report in (gates, counted):
        if report is not None:
            display.console.print(report.table())


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
