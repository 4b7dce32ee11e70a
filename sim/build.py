"""Building simulations: Verilator's runtime once per machine, each design once per content.

A project is verilated once for both engines (`--vpi`, with only the ports and the probes that are
asked for public) and its model compiled into an archive; each engine's main is linked to it. The
archive is optimised for speed, unless compiling quickly is what counts: for a run of few cycles, or
for cocotb, whose Python takes longer than the model.
Memory images are read when the simulation runs and are no part of a build.

Instances that a design repeats with equal parameters share their code: their module is not inlined,
and its ports are public, so that no optimisation reaches through them and tells instances apart
(Verilator then merges equal functions). Two optimisations are off in such designs: the data flow's,
which reaches through all the same, and tables for logic, whose index has another name in each.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import jinja2

from mase_hw._resources import sim_folder
from mase_hw._stages import stage
from mase_hw.cells.axi_read_port import AxiReadPort
from mase_hw.emit.design import DesignSummary, Stream
from mase_hw.errors import SimulationError
from mase_hw.sim import tools
from mase_hw.sim._cache import build_once, content_key, file_digest
from mase_hw.sim.checks import FLAGS as CHECK_FLAGS
from mase_hw.sim.checks import check_text
from mase_hw.sim.compiling import (
    FAST_FLAGS,
    NO_WARNINGS,
    SLOW_FLAGS,
    compile_source,
    defines,
    run_tool,
)
from mase_hw.sim.layout import StreamLayout
from mase_hw.sim.memory import PORT as MEMORY_PORT
from mase_hw.sim.runtime import (
    RUNTIME_FLAGS,
    headers_ahead,
    runtime_includes,
    runtime_objects,
)

VERILATE_FLAGS = (
    *("--cc", "--vpi", "--prefix", "Vtop", "--top-module", "top", "--make", "json"),
    *("--no-timing", "-Wno-fatal", "-O3", "--output-split", "40000"),
    # Compilers take much longer for a function twice as long.
    *("--output-split-cfuncs", "500"),
    # Registers without a reset start as the run's seed says.
    *("--x-assign", "fast", "--x-initial", "unique"),
)
# What the modules' own checks of their parameters refuse; nothing else about a model follows.
REFUSING_FLAGS = ("-Werror-USERERROR",)
SHARING_FLAGS = ("-fno-dfg", "-fno-table")
HARNESS_WARNINGS: tuple[str, ...] = ("-Wall", "-Wextra")
# Sources of one translation unit: the headers are read once for all of them. What runs once is not
# optimised, unless it is so small that reading the headers again would cost more.
UNIT_BYTES = 400_000
SMALL_BYTES = 100_000
SOURCE_GROUPS = {
    "runtime": ("global",),
    "fast": ("classes_fast", "support_fast"),
    "slow": ("classes_slow", "support_slow"),
}
# Its functions serve designs that call C, of which there are none.
UNUSED_RUNTIME = ("verilated_dpi.cpp",)
CHECK_FILE = "checks.sv"
MEMORY_SIGNALS = (*AxiReadPort.ADDRESS, *AxiReadPort.DATA, "error")


@dataclass(frozen=True)
class Model:
    """A verilated and compiled design in the cache.

    Attributes:
        folder: holds the generated sources, `ports.h` and `runtime.txt`.
        key: hash of everything that went into it.
        probes: names of the internal streams that are visible.
        waves: whether it can write a waveform.
    """

    folder: Path
    key: str
    probes: tuple[str, ...]
    waves: bool
    verilator: tools.Verilator
    compiler: tools.Compiler

    def executable(self, engine: str, *, short: bool = False) -> Path:
        """Return the executable of `native`, `cocotb` or `baseline`, building it if needed.

        Args:
            engine: which of them.
            short: whether it runs for so few cycles that nothing is worth being optimised.
        """
        source, libraries = sim_folder() / f"{engine}.cpp", list[str]()
        flags, warnings = SLOW_FLAGS if short else FAST_FLAGS, HARNESS_WARNINGS
        if engine == "cocotb":
            source = tools.find_cocotb() / "lib" / "verilator" / "verilator.cpp"
            folder = str(tools.find_cocotb().parent / "libs")
            libraries = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lcocotbvpi_verilator"]
            flags, warnings = SLOW_FLAGS, NO_WARNINGS
        archive = str(self._archive(flags))
        key = content_key(
            archive, engine, file_digest(source), flags, warnings, RUNTIME_FLAGS, libraries
        )

        def make(folder: Path) -> None:
            main = folder / "main.o"
            compile_source(self.compiler, [*warnings, *self._options(flags)], source, main)
            runtime = [str(path) for path in self._runtime()]
            tail = [*runtime, *libraries, "-pthread", "-lm"]
            target = str(folder / engine)
            run_tool([self.compiler.command, "-o", target, str(main), archive, *tail], "linking")
            main.unlink()

        return build_once("executables", key, make) / engine

    def _archive(self, fast_flags: tuple[str, ...]) -> Path:
        """Return the compiled model; the flags are those of what runs in every cycle."""
        fast = [self.folder / name for name in (self.folder / "fast.txt").read_text().split()]
        slow = [self.folder / name for name in (self.folder / "slow.txt").read_text().split()]
        if fast_flags == SLOW_FLAGS or sum(path.stat().st_size for path in slow) < SMALL_BYTES:
            fast, slow = [*fast, *slow], []
        key = content_key(self.key, [path.name for path in fast], fast_flags, SLOW_FLAGS)

        def make(folder: Path) -> None:
            stage("compiling the simulation")

            def compile_unit(unit: Path) -> Path:
                flags = fast_flags if "_fast_" in unit.name else SLOW_FLAGS
                target = unit.with_suffix(".o")
                options = [*NO_WARNINGS, *self._options(flags)]
                compile_source(self.compiler, options, unit, target)
                return target

            units = _units(folder, fast, "fast") + _units(folder, slow, "slow")
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = list(pool.map(compile_unit, units))
            run_tool(["ar", "rcs", str(folder / "libmodel.a"), *map(str, objects)], "archiving")
            for path in (*units, *objects):
                path.unlink()

        return build_once("models", key, make) / "libmodel.a"

    def _options(self, flags: tuple[str, ...]) -> list[str]:
        """Return all that compiles a source of the model, but for warnings."""
        own = [f"-isystem{self.folder}", *runtime_includes(self.verilator)]
        ahead = [] if self.waves else headers_ahead(self.verilator, self.compiler, flags)
        return [*flags, *ahead, *defines(waves=self.waves), *own]

    def _runtime(self) -> list[Path]:
        sources = (self.folder / "runtime.txt").read_text().split()
        return runtime_objects(self.verilator, self.compiler, sources)


def build_model(
    project: Path,
    summary: DesignSummary,
    *,
    probes: Sequence[Stream] = (),
    waves: bool = False,
    checks: bool = False,
) -> Model:
    """Return the compiled model of a project, from the cache where it is there.

    Args:
        project: the emitted folder.
        summary: its `design.json`.
        probes: internal streams to make visible.
        waves: build with VCD tracing.
        checks: build with the rules of all streams inside.

    Raises:
        ToolError: when Verilator or a compiler is missing.
        SimulationError: when a source is missing or does not compile.
    """
    verilator, compiler = tools.find_verilator(), tools.find_compiler()
    sources = _sources(project)
    _check_memories(project, summary)
    control = _control_file(summary, probes)
    header = _ports_header(summary, probes)
    flags = [*VERILATE_FLAGS, *(["--trace"] if waves else [])]
    flags += SHARING_FLAGS if summary.repeated else []
    watching = ""
    if checks:
        flags += CHECK_FLAGS
        texts = [(project / name).read_text(errors="replace") for name in sources]
        watching = check_text(texts, summary.watched)
    digests = [(name, file_digest(project / name)) for name in sources]
    key = content_key(
        digests,
        control,
        header,
        watching,
        flags,
        verilator.version,
        str(verilator.root),
        compiler.version,
    )

    def make(folder: Path) -> None:
        stage("translating for the simulation")
        (folder / "public.vlt").write_text(control)
        (folder / "ports.h").write_text(header)
        command = [str(verilator.command), *flags, *REFUSING_FLAGS, "--Mdir", str(folder)]
        command += [str(folder / "public.vlt"), *sources]
        if watching:
            (folder / CHECK_FILE).write_text(watching)
            command.append(str(folder / CHECK_FILE))
        run_tool(command, "verilating", project, verilator.environment)
        listed = _listed(folder / "Vtop.json")
        for kind, groups in SOURCE_GROUPS.items():
            paths = [path for group in groups for path in listed.get(group, [])]
            names = [Path(path).name for path in paths]
            names = [name for name in names if name not in UNUSED_RUNTIME]
            (folder / f"{kind}.txt").write_text("".join(f"{name}\n" for name in names))

    folder = build_once("verilated", key, make)
    names = tuple(stream.name for stream in probes)
    return Model(folder, key, names, waves, verilator, compiler)


def _listed(path: Path) -> Mapping[str, Sequence[str]]:
    """Return the generated sources by group; only the names of their folders may be garbled.

    Verilator writes bytes beyond ASCII as in C, which JSON does not know.
    """
    text = re.sub(r"\\(\\|[0-7]{3})", "?", path.read_text())
    sources: Mapping[str, Sequence[str]] = json.loads(text)["sources"]
    return sources


def _sources(project: Path) -> list[str]:
    listing = project / "files.f"
    try:
        names = [line.strip() for line in listing.read_text().splitlines()]
    except (OSError, UnicodeError) as error:
        raise SimulationError(f"{project} has no list of sources: {error}") from error
    sources = [name for name in names if name and not name.startswith("//")]
    if not sources:
        raise SimulationError(f"{listing} lists no source; emit the project again")
    missing = [name for name in sources if not (project / name).is_file()]
    if missing:
        raise SimulationError(f"{listing} lists {missing[0]}, which does not exist")
    return sources


def _check_memories(project: Path, summary: DesignSummary) -> None:
    """Refuse a memory image that is cut off, or not there: its words would be unknown."""
    for name, words in summary.memories.items():
        path = project / name
        words_read = len(path.read_bytes().split()) if path.is_file() else None
        if words_read != words:
            what = (
                "is no file"
                if words_read is None
                else f"has {words_read} words in place of {words}"
            )
            raise SimulationError(f"{path} {what}; emit the project again")


def _control_file(summary: DesignSummary, probes: Sequence[Stream]) -> str:
    names = ["clk", "rst"]
    for stream in (*summary.inputs, *summary.outputs):
        names += [*_signals(stream)]
    if summary.external is not None:
        names += [f"{MEMORY_PORT}_{name}" for name in MEMORY_SIGNALS]
    lines = ["`verilator_config"]
    lines += [f'public_flat_rw -module "top" -var "{name}"' for name in names]
    ports = {stream.name for stream in (*summary.inputs, *summary.outputs)}
    for stream in probes:
        if stream.name not in ports:
            lines += [f'public_flat_rd -module "top" -var "{name}"' for name in _signals(stream)]
    for item in summary.repeated:
        lines.append(f'no_inline -module "{item.module}"')
        lines += [f'public_flat_rd -module "{item.module}" -var "{port}"' for port in item.ports]
    return "\n".join(lines) + "\n"


def _signals(stream: Stream) -> list[str]:
    fields = [stream.name + field.suffix for field in stream.fields]
    return [*fields, f"{stream.name}_valid", f"{stream.name}_ready"]


def _ports_header(summary: DesignSummary, probes: Sequence[Stream]) -> str:
    """Return `ports.h`, which gives the native harness every stream as a C++ type."""
    ports = {stream.name for stream in (*summary.inputs, *summary.outputs)}
    groups = {
        "inputs": [_describe(item, "Port", driven=True) for item in summary.inputs],
        "outputs": [_describe(item, "Port") for item in summary.outputs],
        "probes": [
            _describe(item, "Probe", probe=True, inside=item.name not in ports) for item in probes
        ],
    }
    text = (sim_folder() / "ports.h.j2").read_text()
    template = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(text)
    names = {group: [item["type"] for item in items] for group, items in groups.items()}
    streams = [item for items in groups.values() for item in items]
    memory = summary.external.port if summary.external else None
    return template.render(streams=streams, memory=memory, **names)


def _describe(
    stream: Stream, kind: str, *, driven: bool = False, probe: bool = False, inside: bool = False
) -> dict[str, object]:
    def access(name: str) -> str:
        encoded = name.replace("__", "___05F")
        return f"top.rootp->top__DOT__{encoded}" if inside else f"top.{encoded}"

    layout = StreamLayout(stream)
    fields = [
        {"name": item.name, "access": access(item.name), "offset": item.offset, "bytes": item.bytes}
        for item in layout.fields
    ]
    return {
        "type": f"{kind}_{stream.name}",
        "name": stream.name,
        "bytes": layout.bytes,
        "fields": fields,
        "valid": access(f"{stream.name}_valid"),
        "ready": access(f"{stream.name}_ready"),
        "driven": driven,
        "probe": probe,
    }


def _units(folder: Path, files: list[Path], kind: str) -> list[Path]:
    """Write translation units that include the generated sources, each of limited size."""
    groups: list[list[Path]] = []
    room = 0
    for path in files:
        size = path.stat().st_size
        if size > room or not groups:
            groups.append([])
            room = UNIT_BYTES
        groups[-1].append(path)
        room -= size
    units = []
    for number, group in enumerate(groups):
        unit = folder / f"unit_{kind}_{number}.cpp"
        lines = "".join(f'#include "{path}"\n' for path in group)
        unit.write_bytes(os.fsencode(lines))
        units.append(unit)
    return units
