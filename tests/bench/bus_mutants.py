"""Mutants of the buses: `python -m tests.bench.bus_mutants [--count 49] [--seed 0] [--bus NAME]`.

Single mutations of the SystemVerilog round a design (`rtl/bus` and the wrapper) are drawn, the same
number of each module as far as it has so many. Each runs through the tests of `tests/deploy` that
drive its bus, until one fails. What became of each is printed, and the survivors at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mase_hw.deploy.bus import BusOptions
from tests.bench.mutations import CHOICE_FILE, Finder, Mutation, sources, write_combined
from tests.deploy.designs import emit, vectors
from tests.deploy.simulation import ROOT, build, build_pins, run_cocotb, save_vectors
from tests.deploy.test_axi_memory import LIBRARY, compiled
from tests.deploy.test_serial import FINE

LISTING = "bus/files.f"
# Of a run that a mutation lets hang.
SECONDS = 300.0
# Simulated in the cycles of a batch; turns of random faults.
EFFORT = {"BUS_MOMENTS": "12", "BUS_TURNS": "12"}


@dataclass(frozen=True)
class Wrapped:
    """A design behind a bus, and the module of tests that run inside its simulator."""

    bus: BusOptions
    design: str
    tests: str
    options: dict[str, Any] = field(default_factory=dict)


WRAPPED = {
    "stream": Wrapped(BusOptions("axi-stream", 32), "perceptron", "axis_cocotb"),
    "pair": Wrapped(BusOptions("axi-stream", 16), "pair", "axis_cocotb", {"parallelism": 3}),
    "clocks": Wrapped(BusOptions("axi-stream", 8, True), "perceptron", "axis_cocotb"),
    "memory": Wrapped(BusOptions("axi-memory", 32), "perceptron", "memory_cocotb"),
    "external": Wrapped(
        BusOptions("axi-stream", 32), "perceptron", "external_cocotb", {"memory": "external"}
    ),
    "reload": Wrapped(
        BusOptions("axi-stream", 32), "perceptron", "loading_cocotb", {"reload": ["*"]}
    ),
    "uart": Wrapped(BusOptions("uart"), "perceptron", ""),
}


class Subject:
    """A wrapped design, built once with all of its mutations behind a choice."""

    def __init__(self, name: str, folder: Path, taken: set[str]) -> None:
        self.name, self.wrapped, self._is_prepared = name, WRAPPED[name], False
        self.project = emit(
            self.wrapped.design, folder / "net", self.wrapped.bus, **self.wrapped.options
        ).folder
        self.top = self.wrapped.bus.kind.module
        self._folder = folder
        self._texts = {
            name: (self.project / name).read_bytes() for name in sources(self.project, LISTING)
        }
        self._environment = {**EFFORT, "BUS_REPORT": str(folder / "report.json")}
        if name == "reload":
            self._environment |= _images(self.project, folder)
        else:
            path = save_vectors(folder / "vectors.npz", *vectors(self.project, 20))
            self._environment["BUS_VECTORS"] = str(path)
        if name == "memory":
            library = compiled(LIBRARY, self.project, folder, "-shared", "-fPIC")
            self._environment["BUS_LIBRARY"] = str(library)
        self.mutations = [
            item
            for item in Finder(self.project, self.top, LISTING).mutations()
            if item.is_built_in
            and item.file.startswith("bus/")
            and "control" not in item.file
            and item.file not in taken
        ]

    def has(self, item: Mutation) -> bool:
        """Whether the design has the mutated module; wrappers are of one design each."""
        is_shared = "/mase_" in item.file and item.file in self._texts
        return is_shared or item in self.mutations

    def prepare(self, chosen: Mapping[int, Mutation]) -> None:
        """Build with those mutations that it has; the tests of the unmutated design must pass."""
        if self._is_prepared:
            return
        self._is_prepared = True
        own = {number: item for number, item in chosen.items() if self.has(item)}
        for _ in write_combined(self.project, self._texts, own, None):
            pass
        files = self.project / "files.f"
        if self.wrapped.tests:
            work = self._folder / "build"
            work.mkdir()
            self._program = build(self.project, self.top, files, work)
        else:
            (self.project / LISTING).write_bytes(files.read_bytes())
            for clocks in (8, FINE):
                work = self._folder / f"pins_{clocks}"
                work.mkdir()
                build_pins(self.project, work, clocks)
        if by := self.killer(0):
            raise SystemExit(f"{self.name} without a mutation: {by}")

    def killer(self, number: int) -> str:
        """Return what fails with a mutation; nothing where all tests pass."""
        (self.project / CHOICE_FILE).write_text(f"{number}\n")
        if not self.wrapped.tests:
            return self._serial()
        module = f"tests.deploy.{self.wrapped.tests}"
        try:
            run_cocotb(self._program, self.project, module, self._environment, seconds=SECONDS)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed = [line for line in str(error).splitlines() if line.endswith(" failed")]
            return failed[0].split(".")[-1] if failed else type(error).__name__
        return ""

    def _serial(self) -> str:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["-m", "not full", "tests/deploy/test_serial.py", "-k", "not several"]
        environment = {**os.environ, **EFFORT, "BUS_UART": str(self.project)}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
            )
        except subprocess.TimeoutExpired:
            return "time"
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return "" if done.returncode == 0 else (lines or ["failed"])[0][:110]


def _images(project: Path, folder: Path) -> dict[str, str]:
    """Return the environment of the tests that load weights."""
    from tests.deploy.test_weights import loads

    environment: dict[str, str] = loads("perceptron", project, folder)
    return environment


def choose(items: Sequence[Mutation], count: int, seed: int) -> list[Mutation]:
    """Return mutations, one of each module in turn."""
    chance = random.Random(seed)
    files: dict[str, list[Mutation]] = defaultdict(list)
    for item in items:
        files[item.file].append(item)
    for group in files.values():
        chance.shuffle(group)
    found: list[Mutation] = []
    while len(found) < count and any(files.values()):
        for group in files.values():
            if group and len(found) < count:
                found.append(group.pop())
    return found


def outcomes(subjects: Sequence[Subject], count: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield the design, the mutation and what kills it."""
    drawn = choose([item for subject in subjects for item in subject.mutations], count, seed)
    chosen = dict(enumerate(drawn, 1))
    for number, item in chosen.items():
        by = ""
        for subject in subjects:
            if by or not subject.has(item):
                continue
            subject.prepare(chosen)
            by, name = subject.killer(number), subject.name
        yield name, str(item), by


def main() -> None:
    """Print what becomes of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=49)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bus", choices=WRAPPED, action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mase-hw-buses-") as name:
        subjects: list[Subject] = []
        taken: set[str] = set()
        for bus in options.bus or WRAPPED:
            folder = Path(name) / bus
            folder.mkdir()
            subjects.append(Subject(bus, folder, taken))
            taken |= {item.file for item in subjects[-1].mutations}
        left, done = [], 0
        for bus, mutation, by in outcomes(subjects, options.count, options.seed):
            done += 1
            sys.stdout.write(f"{'seen' if by else 'LEFT'} {bus}: {mutation}: {by}\n")
            sys.stdout.flush()
            left += [] if by else [f"LEFT {bus}: {mutation}\n"]
    sys.stdout.write(f"{done - len(left)} of {done} seen\n")
    sys.stdout.writelines(left)


if __name__ == "__main__":
    main()
