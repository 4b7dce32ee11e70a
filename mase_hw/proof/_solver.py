"""Proofs of a module with assertions: Yosys makes circuits of it, ABC decides each of them.

Both come with pyosys. A proof is by induction: ABC searches clauses over the registers that hold
after reset, that every cycle keeps, and that imply the assertion (property directed reachability:
Bradley, VMCAI 2011; Een, Mishchenko and Brayton, FMCAD 2011), and checks them once it has found
them. Registers start with any content; the reset is in the first cycle.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from mase_hw.errors import ProofError, ToolError
from mase_hw.proof._induction import Induction, Transition

WORKER = Path(__file__).with_name("_circuits.py")
CIRCUIT, FAULT = "property.aig", "fault.txt"
# Assertions of this name are no claims: they are kept where they help.
GUESS = "guess_"
INDUCTION_CYCLES = (1, 2, 4, 12, 28)
SHORT_CYCLES = 4
# Cycles that a search without a proof looks at.
MOST_CYCLES = 1000

Status = Literal["proved", "bounded", "refuted", "reached", "vacuous", "simulated"]

_PROVED = re.compile(r"Property proved|is trivially UNSAT|structurally unsat", re.IGNORECASE)
_FAULT = re.compile(r"was asserted in frame (\d+)")
_INVARIANT = re.compile(r"Invariant F\[(\d+)\] : (\d+) clauses")
_VERIFIED = re.compile(r"Verification of invariant with \d+ clauses was successful")


@dataclass(frozen=True)
class Verdict:
    """What became of an assertion.

    Attributes:
        status: `proved` for all times; `refuted` by a run of `depth` cycles; `bounded`: no run of
            `depth` cycles refutes it, and there was no time for more. Of what must happen:
            `reached`, or `vacuous` where it never does. `simulated`: nothing to prove here.
        depth: cycles, the reset's included; of a proof, those that the search looked at.
        clauses: clauses of the invariant that proves it.
        seconds: time taken.
        fault: of a fault, the inputs in each cycle.
    """

    status: Status
    depth: int
    clauses: int = 0
    seconds: float = 0.0
    fault: tuple[str, ...] = ()


@dataclass(frozen=True)
class Aiger:
    """A circuit in the binary format AIGER 1.9.

    Attributes:
        sizes: largest variable, inputs, registers, outputs, gates.
        registers: a line for each.
        bad: the literal of each assertion's breach.
        constraints: literals that always hold.
        gates: the rest.
    """

    sizes: tuple[int, ...]
    registers: bytes
    bad: tuple[int, ...]
    constraints: tuple[int, ...]
    gates: bytes

    @classmethod
    def read(cls, path: Path) -> Aiger:
        """Return the circuit of a file."""
        header, _, rest = path.read_bytes().partition(b"\n")
        most, inputs, registers, outputs, gates, bad, constraints, *_ = (
            *map(int, header.split()[1:]), 0, 0,
        )  # fmt: skip
        lines = rest.split(b"\n", registers + outputs + bad + constraints)
        literals = [int(line) for line in lines[registers + outputs : -1]]
        return cls(
            (most, inputs, registers, 0, gates),
            b"".join(line + b"\n" for line in lines[:registers]),
            tuple(literals[:bad]),
            tuple(literals[bad:]),
            lines[-1],
        )

    def single(self, number: int, granted: Sequence[int]) -> bytes:
        """Return the circuit with one assertion; others always hold."""
        constraints = [*self.constraints, *(self.bad[other] ^ 1 for other in granted)]
        header = ["aig", *map(str, self.sizes), "1", str(len(constraints))]
        literals = "".join(f"{literal}\n" for literal in (self.bad[number], *constraints))
        head = f"{' '.join(header)}\n".encode()
        return head + self.registers + literals.encode() + self.gates


def solver() -> Path:
    """Return ABC.

    Raises:
        ToolError: with the command that installs it.
    """
    spec = find_spec("pyosys")
    path = Path(spec.origin).with_name("yosys-abc") if spec and spec.origin else None
    if path is None or not path.is_file():
        raise ToolError(
            "the solver of proofs was not found; install it: "
            f"{sys.executable} -m pip install pyosys"
        )
    return path


class Circuit:
    """A module with assertions.

    Args:
        sources: file names in `folder`, packages first.
        top: the module.
        folder: where files are written.

    Raises:
        ProofError: when Yosys refuses the module.
        ToolError: when the tools are missing.
    """

    def __init__(self, sources: Sequence[str], top: str, folder: Path) -> None:
        self._solver, self._folder = solver(), folder
        command = [sys.executable, "-P", str(WORKER), top, *sources]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode or not (folder / "circuit.json").is_file():
            raise ProofError(f"Yosys cannot read the module: {failure(done.stdout + done.stderr)}")
        self._names = json.loads((folder / "circuit.json").read_text())
        self._aiger = Aiger.read(folder / "circuit.aig")
        self._numbers = {
            ".".join(part.removeprefix("\\") for part in path): number
            for number, path in enumerate(self._names["asserts"])
        }
        self._proved: list[int] = []
        self._induced: dict[int, int] = {}

    @property
    def assertions(self) -> list[str]:
        """Their names; those of modules inside begin with the instance."""
        return [name for name in self._numbers if not name.startswith(GUESS)]

    def induce(self, names: Sequence[str], limit_seconds: float) -> None:
        """Prove as many assertions as k-induction can, all at once, for small k."""
        step = Transition.read(self._folder / "step.aig")
        registers: dict[str, list[int]] = {}
        for line in (self._folder / "step.map").read_text().splitlines():
            kind, place, _, register = line.split(maxsplit=3)
            if kind == "latch":
                registers.setdefault(register, []).append(2 * (1 + step.inputs + int(place)))
        induction = Induction(step, registers, self._solver, self._folder)
        guesses = [number for name, number in self._numbers.items() if name.startswith(GUESS)]
        end = time.monotonic() + limit_seconds
        for cycles in INDUCTION_CYCLES:
            # Long runs serve bounds of time; what data is follows from other invariants.
            short = cycles <= SHORT_CYCLES
            wanted = [self._numbers[name] for name in names if short or "_in_time" in name]
            left = end - time.monotonic()
            if left <= 0 or set(wanted) <= self._induced.keys():
                break
            for number in induction.proved([*wanted, *guesses], cycles, left):
                self._induced.setdefault(number, cycles)
        self._proved = list(self._induced)

    def solve(self, name: str, limit_seconds: float) -> Verdict:
        """Prove an assertion, or find a fault, or say how far there is none.

        What was proved before is taken for granted.
        """
        start = time.monotonic()
        number = self._numbers[name]
        if number in self._induced:
            return Verdict("proved", self._induced[number])
        (self._folder / CIRCUIT).write_bytes(self._aiger.single(number, self._proved))
        verdict = self._prove(name, limit_seconds)
        if verdict.status == "bounded":
            verdict = self._search(limit_seconds)
        if verdict.status == "proved":
            self._proved.append(number)
        return replace(verdict, seconds=time.monotonic() - start)

    def _prove(self, name: str, limit_seconds: float) -> Verdict:
        text = self._abc(f"pdr -v -T {max(1, round(limit_seconds))}", limit_seconds)
        found = _INVARIANT.search(text)
        if _PROVED.search(text) and found and not _VERIFIED.search(text):
            raise ProofError(f"the solver could not check its invariant of {name}")
        verdict = outcome(text) or Verdict("bounded", 0)
        return replace(verdict, fault=self._trace()) if verdict.status == "refuted" else verdict

    def _search(self, limit_seconds: float) -> Verdict:
        limit = max(1, round(limit_seconds))
        text = self._abc(f"bmc3 -F {MOST_CYCLES} -T {limit} -v", limit_seconds)
        if found := _FAULT.search(text):
            return Verdict("refuted", int(found[1]) + 1, fault=self._trace())
        frames = [int(number) for number in re.findall(r"^\s*(\d+) [+:]", text, re.MULTILINE)]
        return Verdict("bounded", max(frames, default=0) + 1)

    def _abc(self, command: str, limit_seconds: float) -> str:
        script = f"read_aiger {CIRCUIT}; fold; strash; {command}; write_cex -a {FAULT}"
        (self._folder / FAULT).unlink(missing_ok=True)
        try:
            done = subprocess.run(
                [str(self._solver), "-c", script],
                cwd=self._folder,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=2 * limit_seconds + 30,
            )
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout + done.stderr

    def _trace(self) -> tuple[str, ...]:
        """Return the inputs of the run that refutes an assertion, a line a cycle."""
        path = self._folder / FAULT
        if not path.is_file():
            return ()
        rows = [line for line in path.read_text().splitlines()[1:] if re.fullmatch("[01]+", line)]
        lines = []
        for cycle, row in enumerate(rows):
            values: dict[str, int] = {}
            for entry in self._names["inputs"]:
                if len(entry["path"]) == 1:
                    name = entry["path"][0].removeprefix("\\")
                    bit = int(row[entry["input"]]) << entry["offset"]
                    values[name] = values.get(name, 0) | bit
            values.pop("clk", None)
            words = " ".join(f"{name}={value:x}" for name, value in values.items())
            lines.append(f"cycle {cycle}: {words}")
        return tuple(lines)


def outcome(text: str) -> Verdict | None:
    """Return what ABC says of a property; None where it came to no end."""
    if _PROVED.search(text):
        found = _INVARIANT.search(text)
        return Verdict("proved", int(found[1]) if found else 1, int(found[2]) if found else 0)
    if found := _FAULT.search(text):
        return Verdict("refuted", int(found[1]) + 1)
    return None


def failure(text: str) -> str:
    """Return the first error in what Yosys and its front end say."""
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if "ERROR: " in line]
    return (found or lines or ["it said nothing"])[0]
