"""Files for other people's tools: FuseSoC, through it Vivado and Quartus, IP packaging, LiteX."""

from __future__ import annotations

import re
from pathlib import Path

from mase_hw._resources import template_environment
from mase_hw.deploy.bus import Bus
from mase_hw.deploy.plain import FOLDER as PLAIN
from mase_hw.deploy.plain import entry_of
from mase_hw.emit.design import DesignSummary

FOLDER = "project"
# What the scripts of Vivado and Quartus are for.
PARTS = {"xdc": "xczu7ev-ffvc1156-2-e", "sdc": "AGFB014R24B2E2V"}


def write_projects(folder: Path, summary: DesignSummary, bus: Bus | None, clock_mhz: float) -> None:
    """Write `NAME.core` and `project/`; the plain Verilog must be there already.

    Args:
        folder: the project.
        summary: its `design.json`.
        bus: its bus ports.
        clock_mhz: the clock of the constraints.
    """
    entry, environment = entry_of(bus), template_environment()
    target = folder / FOLDER
    target.mkdir()
    name = re.sub(r"\W", "_", summary.name)
    given = {
        "name": name,
        "module": entry.module,
        "bus": bus if bus and bus.kind.registers else None,
        "parts": PARTS,
        "sources": (folder / entry.files).read_text().split(),
        "memories": _below(folder, "mem"),
        "vectors": _below(folder, PLAIN),
    }
    core = environment.get_template("project.core.j2").render(given)
    (folder / f"{name}.core").write_text(core)
    script = environment.get_template("package_ip.tcl.j2").render(given)
    (target / "package_ip.tcl").write_text(script)
    clock = "aclk" if given["bus"] else "clk"
    line = f"create_clock -name {clock} -period {1000 / clock_mhz:.3f} [get_ports {clock}]\n"
    if bus is not None and bus.options.own_clock:
        line += line.replace("aclk", "core_clk")
        line += "set_clock_groups -asynchronous -group {aclk} -group {core_clk}\n"
    for suffix, part in PARTS.items():
        head = f"# {part}: {clock_mhz:g} MHz is what was asked for, not what the design reaches.\n"
        (target / f"clock.{suffix}").write_text(head + line)
    if bus and bus.kind.has_streams:
        module = environment.get_template("litex_module.py.j2").render(given)
        (target / f"litex_{name}.py").write_text(module)


def _below(folder: Path, name: str) -> list[str]:
    """Return the memory images in a folder of the project, and their paths from it."""
    return [path.relative_to(folder).as_posix() for path in sorted((folder / name).glob("*.mem"))]
