"""`synth`: resources of an emitted project through Yosys, and its clock rate through nextpnr."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mase_hw.cli._options import HARDWARE, File, Megahertz, Project, command
from mase_hw.cli._progress import Display

Name = Annotated[str | None, typer.Option(metavar="NAME")]

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Placement:
    """Place and route.

    Attributes:
        device: device of the family.
        speed: speed grade.
        package: package.
        seeds: placements to try; the median counts.
        clock: clock to reach; status 1 where no placement does.
        bitstream: write a bitstream whose ports are pins.
        pins: pins of a board, in the family's format (LPF, PCF, PDC, CST).
        serial_ports: put all ports behind two pins, to measure.
        rip_up: route anew what misses the clock; slow.
    """

    device: Name = None
    speed: Annotated[str | None, typer.Option(metavar="GRADE")] = None
    package: Name = None
    seeds: int | None = None
    clock: Megahertz = None
    bitstream: File = None
    pins: File = None
    serial_ports: bool = False
    rip_up: bool = False


@command(HARDWARE)
def synth(
    project: Project,
    *,
    target: str = "xcup",
    dsp: bool = True,
    route: bool = False,
    placement: Placement,
    liberty: File = None,
    macro_bits: Annotated[int | None, typer.Option(min=0, show_default="32768")] = None,
    energy: Annotated[int | None, typer.Option(min=1, metavar="COUNT")] = None,
    display: Display,
) -> None:
    """Synthesize the project in DIR: LUT, FF, carry, DSP and BRAM per node and in all.

    With --liberty: cells and area in the units of that library, an estimate without wires.

    Options:
        target: FPGA family: xcup (UltraScale+), ecp5, ice40, nexus, machxo2 or gowin.
        dsp: allow DSP blocks.
        route: also place and route: clock rate, critical path.
        placement: with --route
        liberty: standard cells of an ASIC, in Liberty: area per node.
        macro_bits: with --liberty: the most bits of a memory that becomes gates.
        energy: with --liberty: dynamic energy of so many example inputs.
    """
    from mase_hw.cli._report import steps
    from mase_hw.hardware.synth import synthesize

    options = vars(placement)
    cells = {"macro_bits": macro_bits, "energy": energy}
    if liberty is not None:
        other = {
            "target": target != "xcup",
            "no-dsp": not dsp,
            "route": route,
            **options,
        }
        _check_none(other, "belongs to an FPGA: leave it or --liberty out")
        _print_gates(project, liberty, macro_bits, energy, display)
        return
    _check_none(cells, "belongs to standard cells: add --liberty FILE")
    if not route:
        _check_none(options, "belongs to place and route: add --route")
        with display.progress(f"synthesizing for {target}") as advance:
            report = synthesize(project, target, dsp=dsp, progress=steps(advance))
        display.json(report.to_dict())
        display.console.print(report.table())
        if not display.json_output and (told := other_device(project, target)):
            display.say(told)
        return
    from mase_hw.hardware.route import route as place_and_route

    with display.stages(target) as say:
        routed = place_and_route(
            project,
            target,
            device=placement.device,
            speed=placement.speed,
            package=placement.package,
            dsp=dsp,
            seeds=1 if placement.seeds is None else placement.seeds,
            clock_mhz=placement.clock,
            bitstream=placement.bitstream,
            constraints=placement.pins,
            serial_ports=placement.serial_ports,
            rip_up=placement.rip_up,
            progress=say,
        )
    display.json(routed.to_dict())
    for table in (routed.synthesis.table(), *routed.tables()):
        display.console.print(table)
    routed.check_clock()


def other_device(project: Path, target: str) -> str:
    """Note on resources of a design for a generic device with the blocks of its target.

    Empty where there is nothing to say: the target's blocks are used, or nothing is saved.
    """
    from mase_hw.cells import Device
    from mase_hw.emit.project import load_graph
    from mase_hw.errors import MaseError
    from mase_hw.graph.nodes import metadata
    from mase_hw.hardware.estimate import estimate, on_device

    if target not in Device.names():
        return ""
    try:
        mg, _ = load_graph(project)
    except MaseError:
        return ""
    used = {item.device for node in mg.nodes if (item := metadata(node).hardware)}
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
        if value is not None and value is not False:
            raise ConfigError(f"--{name.replace('_', '-')} {told}")


def _print_gates(
    project: Path,
    liberty: Path,
    macro_bits: int | None,
    energy: int | None,
    display: Display,
) -> None:
    """Print what a project takes of a library of cells."""
    from mase_hw.cli._report import steps
    from mase_hw.hardware.gates import MACRO_BITS, synthesize_gates
    from mase_hw.sim.energy import count_energy

    most = MACRO_BITS if macro_bits is None else macro_bits
    with display.progress(f"synthesizing with {liberty.name}") as advance:
        gates = synthesize_gates(project, liberty, macro_bits=most, progress=steps(advance))
        counted = count_energy(project, gates, samples=energy) if energy else None
    display.json(gates.to_dict() | ({"energy": counted.to_dict()} if counted else {}))
    for report in (gates, counted):
        if report is not None:
            display.console.print(report.table())
