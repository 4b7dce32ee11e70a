"""Synthesis of an emitted project with Yosys: resources per node and in all.

Every instance of the top stays a module of its own and is flattened below, so that each cell
belongs to one graph node: logic is not optimized across nodes. Logic that belongs to no node, such
as a splitter of a stream, is the glue.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mase_hw._kinds import Record
from mase_hw._processes import run_python
from mase_hw.errors import SynthesisError
from mase_hw.hardware._primitives import Resources
from mase_hw.hardware._wrapper import WRAPPER, Wrapper
from mase_hw.hardware.targets import Part, Target, find_target

if TYPE_CHECKING:
    from rich.table import Table

Progress = Callable[[str], None]

# A register that a module keeps has twins, which would become one.
KEPT_REGISTERS = "setattr -set keep 1 w:* a:keep %i %ci1 t:$*dff* %i"
_PASS = re.compile(r"[\d.]+ Executing (?P<name>[\w ]+?) (?:pass|frontend|backend)\b")
_DIAGNOSTIC = re.compile(r"(?:^|: )ERROR: ")
_HINTS = (
    ("failed to open", "a memory image is missing; emit the project again"),
    ("unknown module", "a module has no file in files.f; emit the project again"),
    ("ABC output file", "of a library, ABC reads gates with timing and functions with ! * + alone"),
    ("No module named 'pyosys'", "install the synthesizer: pip install pyosys"),
)


@dataclass(frozen=True)
class SynthesisReport:
    """What a design takes of an FPGA.

    Attributes:
        target: FPGA family.
        nodes: resources by graph node; the parts of a node (its memories, say) are added.
        glue: resources of the top that belong to no node.
        other: count of each primitive that is none of the five kinds (block constants, say).
    """

    target: str
    nodes: Mapping[str, Resources]
    glue: Resources = field(default_factory=Resources)
    other: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> Resources:
        """The sum over nodes, and the glue."""
        return reduce(add, self.nodes.values(), self.glue)

    def to_dict(self) -> dict[str, object]:
        """Return the totals, `nodes` with the same five keys, `glue` and `other`."""
        return {
            "target": self.target,
            **self.total.to_dict(),
            "nodes": {name: resources.to_dict() for name, resources in self.nodes.items()},
            "glue": self.glue.to_dict(),
            "other": dict(self.other),
        }

    def table(self) -> Table:
        """Return a table with a row per node, for rich."""
        from rich.table import Table

        table = Table(title=f"Resources on {self.target}", show_footer=True)
        total = self.total.to_dict()
        table.add_column("node", footer="total")
        for kind, amount in total.items():
            table.add_column(kind.upper(), footer=str(amount), justify="right")
        rows = dict(self.nodes)
        if self.glue != Resources():
            rows["(glue)"] = self.glue
        for name, resources in rows.items():
            table.add_row(name, *(str(amount) for amount in resources.to_dict().values()))
        return table


@dataclass(frozen=True)
class Entry:
    """Where synthesis begins.

    Attributes:
        module: the outermost module.
        files: list of the sources, below the project.
        core: path of the instance that holds the nodes, from that module on.
    """

    module: str = "top"
    files: str = "files.f"
    core: str = "top"


@dataclass(frozen=True)
class Netlist:
    """What synthesis leaves for a placer.

    Attributes:
        path: file to write, in the JSON of Yosys.
        wrapper: what stands around the top; None for the top with its ports as pins.
        part: the FPGA.
    """

    path: Path
    wrapper: Wrapper | None
    part: Part


def synthesize(
    project: Path,
    target: str = "xcup",
    *,
    dsp: bool = True,
    progress: Progress | None = None,
    netlist: Netlist | None = None,
    entry: Entry | None = None,
) -> SynthesisReport:
    """Synthesize an emitted project and return its resources.

    Args:
        project: folder with `top.sv`, `files.f`, `mem/` and `design.json`.
        target: a family of `mase_hw.hardware.targets`, such as `xcup` (AMD UltraScale+) or `ecp5`
            (Lattice ECP5).
        dsp: multiply in DSP blocks; when false, in look-up tables.
        progress: called with the name of each Yosys pass as it starts.
        netlist: also write a netlist; what its wrapper takes is not in the report.
        entry: where to begin, for a design inside another module; the top.

    Raises:
        SynthesisError: when the folder is no project, the target is unknown, or Yosys fails; the
            message holds the first error that Yosys reported.
    """
    family, entry = find_target(target), entry or Entry()
    nodes = nodes_by_instance(project)
    with TemporaryDirectory(prefix="mase_hw_synth_") as scratch:
        statistics = Path(scratch) / "stat.json"
        run_yosys(_script(nodes, family, dsp, statistics, netlist, entry), project, progress)
        modules = json.loads(statistics.read_text())["modules"]
    return _report(modules, nodes, target, entry)


def plain_verilog(project: Path, path: Path, entry: Entry | None = None) -> None:
    """Write a project as one file of Verilog-2005 that keeps its modules; memories are inside.

    Args:
        project: folder with the sources and `mem/`.
        path: file to write.
        entry: where to begin; the top.

    Raises:
        SynthesisError: when Yosys fails.
    """
    entry = entry or Entry()
    commands = [
        f"read_slang --best-effort-hierarchy --top {entry.module} -U SYNTHESIS -f {entry.files}",
        "proc",
        # Assertions are no Verilog-2005.
        "chformal -remove",
        f'write_verilog -noattr "{path.absolute()}"',
    ]
    run_yosys(commands, project, None)


def nodes_by_instance(project: Path) -> dict[str, str]:
    """Read which graph node each instance of the top belongs to."""
    path = project / "design.json"
    try:
        design = json.loads(path.read_text())
        nodes = {entry["name"]: entry["node"] for entry in design["instances"]}
    except OSError as error:
        raise SynthesisError(
            f"{project} is not a mase-hw project: {path.name}: {error.strerror}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise SynthesisError(
            f"{path} lists no instances ({type(error).__name__}: {error}); emit the project again"
        ) from error
    odd = [name for name in nodes if not isinstance(name, str) or not re.fullmatch(r"\w+", name)]
    if odd:
        raise SynthesisError(f"{path}: {odd[0]!r} is no instance name; emit the project again")
    return nodes


def _script(
    nodes: Mapping[str, str],
    target: Target,
    dsp: bool,
    statistics: Path,
    netlist: Netlist | None,
    entry: Entry,
) -> list[str]:
    # The front end names the module of an instance `<module>$top.<instance>`.
    kept = [f"setattr -mod -set keep_hierarchy 1 *${entry.core}.{name}" for name in nodes]
    around = netlist.wrapper if netlist else None
    if around is not None:
        kept += [f"wrap {around}", "setattr -mod -set keep_hierarchy 1 top"]
    top = WRAPPER if around else entry.module
    pads = target.pads() if netlist and around != "registered" else []
    return [
        f"read_slang --best-effort-hierarchy --top {entry.module} {target.front_end(dsp=dsp)} "
        f"-f {entry.files}",
        *kept,
        KEPT_REGISTERS,
        f"{target.synthesis(netlist.part if netlist else None, dsp=dsp)} -top {top}",
        *([f"select {top}", *pads, "select -clear"] if pads else []),
        f'tee -q -o "{statistics}" stat -json',
        *([f'write_json "{netlist.path}"'] if netlist else []),
    ]


def run_yosys(commands: list[str], project: Path, progress: Progress | None) -> None:
    """Run Yosys in the project folder, where the paths of the memory images start."""
    worker = Path(__file__).with_name("_yosys.py")

    def look(line: str) -> None:
        found = _PASS.match(line)
        if progress and found:
            progress(found["name"])

    status, lines = run_python([str(worker), *commands], project, look)
    if status:
        raise SynthesisError(_explain(lines, status, project))


def _explain(lines: list[str], returncode: int, project: Path) -> str:
    """Return the first error of a log with a hint."""
    diagnostics = (line for line in lines if _DIAGNOSTIC.search(line) or "Error: " in line)
    first = next(diagnostics, None)
    if first is None and returncode < 0:
        first = f"Yosys was ended by signal {-returncode}"
    if first is None:
        first = lines[-1] if lines else f"Yosys ended with status {returncode} and said nothing"
    hint = next((f"; {hint}" for words, hint in _HINTS if words in first), "")
    return f"synthesis of {project} failed: {first}{hint}"


def _report(
    modules: Mapping[str, Record],
    nodes: Mapping[str, str],
    target: str,
    entry: Entry,
) -> SynthesisReport:
    """Add up the cells of each module that was kept."""
    family = find_target(target)
    primitives = family.primitives
    by_node = dict.fromkeys(nodes.values(), Resources())
    glue = Resources()
    other: dict[str, int] = {}
    names = {name.removeprefix("\\") for name in modules}
    for module, statistics in modules.items():
        if module.removeprefix("\\") == WRAPPER:
            continue
        instance = module.rpartition(f"${entry.core}.")[2]
        for cell, count in statistics["num_cells_by_type"].items():
            resources = primitives.get(cell, Resources()) * count
            if instance in nodes:
                by_node[nodes[instance]] += resources
            else:
                glue += resources
            is_free = cell in family.free or cell in names or cell == "$scopeinfo"
            if cell not in primitives and not is_free:
                other[cell] = other.get(cell, 0) + count
    return SynthesisReport(target, by_node, glue, other)
