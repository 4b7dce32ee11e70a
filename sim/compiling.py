"""Running the compiler and Verilator, with what they say where they fail."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from mase_hw._processes import tool_group
from mase_hw.errors import SimulationError, ToolError
from mase_hw.sim.tools import Compiler

FAST_FLAGS = ("-std=gnu++17", "-O3")
SLOW_FLAGS = ("-std=gnu++17", "-O0")
# Of sources that are not ours.
NO_WARNINGS: tuple[str, ...] = ("-w",)
SHOWN_LINES = 20


class BuildError(SimulationError):
    """Verilator or the compiler does not take a project's sources."""


def defines(*, waves: bool) -> list[str]:
    """Macros for Verilator's sources."""
    trace = int(waves)
    return [
        "-DVERILATOR=1", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0", f"-DVM_TRACE={trace}",
        "-DVM_TRACE_FST=0", f"-DVM_TRACE_VCD={trace}", "-DVM_TRACE_SAIF=0",
    ]  # fmt: skip


def compile_source(compiler: Compiler, flags: Sequence[str], source: Path, target: Path) -> None:
    """Compile one source.

    Raises:
        BuildError: when the compiler does not take it.
        ToolError: when it cannot be run.
    """
    run_tool([compiler.command, *flags, "-c", str(source), "-o", str(target)], "compiling")


def run_tool(
    command: Sequence[str],
    doing: str,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
) -> None:
    """Run a tool to its end; `doing` says in a message what for.

    Raises:
        BuildError: when its status is not 0, with the first errors that it printed.
        ToolError: when it cannot be run.
    """
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            process_group=tool_group(),
        )
    except OSError as error:
        raise ToolError(f"{command[0]} cannot be run: {error}") from error
    if result.returncode:
        lines = (result.stderr + result.stdout).strip().splitlines()
        errors = [line for line in lines if "rror" in line] or lines or ["it printed nothing"]
        shown = "\n".join(errors[:SHOWN_LINES])
        raise BuildError(
            f"{doing} the simulation failed with exit status {result.returncode}:\n{shown}"
        )
