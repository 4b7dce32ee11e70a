"""Runs cocotb tests of a design behind bus ports, one Verilator build a design."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import find_libpython
import numpy as np
from cocotb_tools import config
from cocotb_tools.check_results import get_results

from mase_hw.deploy.driver.simulated import CLOCKS_PER_BIT, TIMEOUT_BITS
from mase_hw.sim.build import SOURCE_GROUPS
from mase_hw.sim.checks import FLAGS as CHECKS
from mase_hw.sim.compiling import NO_WARNINGS, SLOW_FLAGS, compile_source, defines, run_tool
from mase_hw.sim.runtime import headers_ahead, runtime_includes, runtime_objects
from mase_hw.sim.tools import find_cocotb, find_compiler, find_verilator

ROOT = Path(__file__).resolve().parents[2]
# Of a thousand inferences on a machine with other load; tests end by themselves in simulated time.
TIMEOUT_SECONDS = 3600
# Cycles of a batch in which a reset or a start comes: of one design in the default tests, of
# others; 0 for every one.
QUICK, SOME, EVERY = 12, 60, 0


def build(project: Path, module: str, files: Path, folder: Path, *options: str) -> Path:
    """Return the executable of `module` for cocotb, made of the sources that `files` lists."""
    libraries = find_cocotb().parent / "libs"
    return _built(
        project,
        module,
        files,
        folder,
        find_cocotb() / "lib" / "verilator" / "verilator.cpp",
        ("--vpi", "--public-flat-rw", "--timescale", "1ns/1ps", *CHECKS, *options),
        (f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lcocotbvpi_verilator"),
    )


def build_pins(project: Path, folder: Path, clocks: int = CLOCKS_PER_BIT) -> Path:
    """Return the program of the emitted driver that is a design at its serial pins."""
    return _built(
        project,
        "top_uart",
        project / "bus" / "files.f",
        folder,
        project / "driver" / "pins.cpp",
        (f"-GCLOCKS_PER_BIT={clocks}", f"-GTIMEOUT_BITS={TIMEOUT_BITS}", *CHECKS),
        defined=(f"-DCLOCKS_PER_BIT={clocks}",),
    )


def _built(
    project: Path,
    module: str,
    files: Path,
    folder: Path,
    main: Path,
    options: Sequence[str],
    libraries: Sequence[str] = (),
    defined: Sequence[str] = (),
) -> Path:
    """Verilate, compile without optimising, and link with a main."""
    verilator, compiler = find_verilator(), find_compiler()
    command = [str(verilator.command), "--cc", "--make", "json", "--prefix", "Vtop"]
    command += ["--top-module", module, "--Mdir", str(folder)]
    command += ["-Wno-fatal", "-Werror-USERERROR", *options, *files.read_text().split()]
    run_tool(command, "verilating", project, verilator.environment)
    listed = json.loads((folder / "Vtop.json").read_text())["sources"]
    paths = {
        kind: [Path(path) for group in groups for path in listed.get(group, [])]
        for kind, groups in SOURCE_GROUPS.items()
    }
    unit = folder / "unit.cpp"
    own = [*paths["fast"], *paths["slow"]]
    unit.write_text("".join(f'#include "{folder / path.name}"\n' for path in own))
    flags = [*SLOW_FLAGS, *headers_ahead(verilator, compiler, SLOW_FLAGS), *defines(waves=False)]
    flags += [*NO_WARNINGS, f"-isystem{folder}", *runtime_includes(verilator), *defined]
    objects = []
    for source in (unit, main):
        objects.append(folder / f"{source.stem}.o")
        compile_source(compiler, flags, source, objects[-1])
    names = [path.name for path in paths["runtime"] if "dpi" not in path.name]
    objects += runtime_objects(verilator, compiler, names)
    target = folder / module
    tail = [*map(str, objects), *libraries, "-pthread"]
    run_tool([compiler.command, "-o", str(target), *tail], "linking")
    return target


def compiled(source: str, project: Path, folder: Path, *options: str) -> Path:
    """Return what a C99 program makes of a project's header; a warning is an error."""
    path, target = folder / "program.c", folder / "program"
    path.write_text(source)
    strict = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-Werror")
    compiler = find_compiler().command.replace("g++", "gcc")
    command = [compiler, *strict, *options, "-x", "c", f"-I{project / 'driver'}", str(path)]
    run_tool([*command, "-o", str(target)], "compiling")
    return target


def run_tests(
    project: Path,
    tests: str,
    environment: Mapping[str, str],
    names: Sequence[str] = (),
    options: Sequence[str] = (),
) -> int:
    """Build a project's bus ports and run cocotb tests of this folder; return how many passed."""
    bus = json.loads((project / "design.json").read_text())["bus"]
    work = project.with_name("build")
    work.mkdir()
    executable = build(project, bus["module"], project / bus["files"], work, *options)
    return run_cocotb(executable, project, f"tests.deploy.{tests}", environment, names)


def run_cocotb(
    executable: Path,
    project: Path,
    tests: str,
    environment: Mapping[str, str],
    names: Sequence[str] = (),
    seconds: float = TIMEOUT_SECONDS,
) -> int:
    """Run the cocotb tests of a Python module in the project's folder; return how many passed."""
    library = find_libpython.find_libpython()
    results = executable.with_name("results.xml")
    results.unlink(missing_ok=True)
    testing = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *(item for item in sys.path if item)]),
        "PYGPI_PYTHON_BIN": sys.executable,
        "LIBPYTHON_LOC": str(library),
        "GPI_USERS": f"{library};{config.pygpi_entry_point()}",
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_TOPLEVEL": executable.name,
        "COCOTB_TEST_MODULES": tests,
        "COCOTB_RESULTS_FILE": str(results),
        "COCOTB_ANSI_OUTPUT": "0",
        "COCOTB_LOG_LEVEL": "WARNING",
        "COCOTB_MAX_FAILURES": "1",
        "PYTHONWARNINGS": "ignore",
        "COCOTB_TEST_FILTER": "|".join(names),
        "BUS_PROJECT": str(project),
        **environment,
    }
    found = subprocess.run(
        [str(executable), "+verilator+rand+reset+2", "+verilator+seed+1"],
        cwd=project,
        env={**os.environ, **testing},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert results.is_file(), f"{found.stdout[-3000:]}{found.stderr[-3000:]}"
    count, failed = get_results(results)
    assert count and not failed, f"{found.stdout[-6000:]}{found.stderr[-3000:]}"
    return count


def save_vectors(path: Path, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> Path:
    """Write vectors where the tests inside the simulator read them."""
    named = {f"in{n}": item for n, item in enumerate(inputs)}
    np.savez(path, **named, **{f"out{n}": item for n, item in enumerate(outputs)})
    return path
