"""Proofs of a module with assertions: Yosys makes circuits of it, ABC decides each of them.

Both come with pyosys. A proof is by induction: ABC searches clauses over the registers that hold
after reset, that every cycle keeps, and that imply the assertion (property directed reachability:
Bradley, VMCAI 2011; Een, Mishchenko and Brayton, FMCAD 2011), and checks them once it has found
them. Where that takes long, all states are looked at (`_reach.py`). Registers start with any
content; the reset is in the first cycle.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from mase_hw._processes import tool_group
from mase_hw.errors import ProofError, ToolError
from mase_hw.proof._copies import COPIES, Copies
from mase_hw.proof._induction import Induction, Relation
from mase_hw.proof._reach import Reach
from mase_hw.proof._relations import Sum, relations
from mase_hw.proof._simulation import CYCLES, Simulation
from mase_hw.proof._transition import Names, Transition, cone_registers

WORKER = Path(__file__).with_name("_circuits.py")
# Assertions of this name say that what others speak of cannot happen; a run must refute them.
REACH = "reach_"
# So begin those of the module and of what is inside it.
INNER = ("dut.", *COPIES)
CIRCUIT, FAULT = "property.aig", "fault.txt"
INDUCTION_CYCLES = (1, 2, 4, 12, 28)
SHORT_CYCLES = 4
# Stages of a pipeline in a sum that is tried first: proofs with long sums take long.
FEW_STAGES = 2
# A first search takes so much less time: many proofs are found soon.
SHORT_SEARCH = 5
# A search in all states, or for all that holds together, may take so much longer, up to as many
# seconds: it ends, or finds no end.
LONG_SEARCH, LONG_SECONDS = 8, 120
# Cycles that a search without a proof looks at.
MOST_CYCLES = 1000

Status = Literal[
    "proved",
    "bounded",
    "refuted",
    "reached",
    "vacuous",
    "compared",
    "unlike",
    "simulated",
    "ordered",
]

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
            `reached`, or `vacuous` where it never does. `compared` for all inputs of small
            instances; `unlike` the module that was. `simulated`: nothing to prove here.
            `ordered`: all moves of an inference were put in an order.
        depth: cycles, the reset's included; of a proof, those that the search looked at.
        clauses: clauses of the invariant that proves it.
        states: all states that there are, which were looked at.
        seconds: time taken.
        fault: of a fault, the inputs in each cycle.
    """

    status: Status
    depth: int
    clauses: int = 0
    states: int = 0
    seconds: float = 0.0
    fault: tuple[str, ...] = ()


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

    Attributes:
        names: of its inputs and registers.

    Raises:
        ProofError: when Yosys refuses the module.
        ToolError: when the tools are missing.
    """

    def __init__(self, sources: Sequence[str], top: str, folder: Path) -> None:
        self._solver, self._folder = solver(), folder
        command = [sys.executable, "-P", str(WORKER), top, *sources]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False,
            process_group=tool_group(),
        )  # fmt: skip
        if done.returncode or not (folder / "names.json").is_file():
            raise ProofError(f"Yosys cannot read the module: {failure(done.stdout + done.stderr)}")
        self._step = Transition.read(folder / "step.aig")
        self.names = Names.read(folder, len(self._step.latches))
        listed = json.loads((folder / "names.json").read_text())["asserts"]
        self._numbers = {
            ".".join(part.removeprefix("\\") for part in path): number
            for number, path in enumerate(listed)
        }
        # Numbers of the relations that are tried together: the short ones, then all.
        self._guesses: tuple[Sequence[int], ...] = ((),)
        self._induction = Induction(self._step, (), self._solver, folder)
        self._induced: dict[int, int] = {}
        self._reached: dict[int, int] = {}
        # What the assertions of control depend on.
        self._control: set[int] = set()

    @property
    def assertions(self) -> list[str]:
        """Their names; those of modules inside begin with the instance."""
        return list(self._numbers)

    def run(self, names: Sequence[str], cycles: int = CYCLES) -> None:
        """Guess what ties the registers that assertions speak of, from random runs.

        What was seen to fail, as what must happen does, is not searched for any more.

        Args:
            names: the assertions.
            cycles: of each run.
        """
        watched = {
            self._step.bad[number]: number
            for name, number in self._numbers.items()
            if name in names or name.startswith(REACH)
        }
        wanted = [self._step.bad[self._numbers[name]] for name in names]
        simulation = Simulation(self._step, self._inputs_together(), watched)
        self._control = set(cone_registers(self._step, wanted))
        named = self._named(self._control)
        shown = [place for places in named.values() for place in places]
        number = {place: order for order, place in enumerate(shown)}
        runs = simulation.run(shown, watched, cycles)
        self._reached = {watched[literal]: cycle for literal, cycle in runs.reached.items()}
        groups = {name: [number[place] for place in places] for name, places in named.items()}
        copies = Copies(runs.states, groups, self.names.roles)
        claims: list[Relation] = [item.moved(shown) for item in copies.equalities()]
        # What is always equal in both copies is tied to the rest in one of them.
        tied = relations(runs.states, copies.control or groups, self.names.roles)
        claims += [item.moved(shown) for item in tied]
        short = [
            number
            for number, item in enumerate(claims)
            if not isinstance(item, Sum) or item.stages <= FEW_STAGES
        ]
        self._guesses = (short, range(len(claims)))
        self._induction = Induction(self._step, claims, self._solver, self._folder)

    def _named(self, inside: Collection[int]) -> dict[str, list[int]]:
        """Return the bits of each register that are among some registers."""
        return {
            name: places
            for name, bits in self.names.registers.items()
            if (places := [place for place in bits if place in inside])
        }

    def _inputs_together(self) -> list[list[int]]:
        groups: dict[str, list[int]] = {}
        for place, (name, _) in sorted(self.names.inputs.items(), key=lambda item: item[1]):
            groups.setdefault(name, []).append(2 * (1 + place))
        return list(groups.values())

    def induce(
        self,
        control: Sequence[str],
        data: Sequence[str],
        limit_seconds: float,
        cycles: Sequence[int] = INDUCTION_CYCLES,
    ) -> None:
        """Prove as many assertions as k-induction can, all at once, for small k.

        Args:
            control: assertions that do not depend on what is computed.
            data: others; where one does not hold whatever is computed, no proof is found here.
            limit_seconds: for all searches.
            cycles: each k that is tried.
        """
        end = time.monotonic() + limit_seconds
        open_ = {self._numbers[name]: name for name in control}
        open_ = {number: name for number, name in open_.items() if number not in self._reached}
        near = [self._numbers[name] for name in data]
        inner = [number for number, name in open_.items() if name.startswith(INNER)]
        rest = [number for number in open_ if number not in inner]
        timed = [number for number in rest if "_in_time" in open_[number]]

        def prove_open(
            wanted: Sequence[int],
            counts: Sequence[int],
            guess: Collection[int] = (),
            near: Sequence[int] = (),
        ) -> bool:
            """Try each count while a claim is open; return whether a wanted one was proved."""
            before = self._induced.keys() & wanted
            for count in counts:
                seconds = end - time.monotonic()
                if {*wanted, *near} - self._induced.keys() and seconds > 0:
                    for number in self._induction.proved(
                        wanted, count, seconds, guess=guess, near=near
                    ):
                        self._induced.setdefault(number, count)
            return self._induced.keys() & wanted != before

        short = [count for count in cycles if count <= SHORT_CYCLES]
        long = [count for count in cycles if count > SHORT_CYCLES]
        # What is said inside holds by itself, or with guesses, and helps; long runs serve bounds of
        # time, once it is known what is due.
        prove_open(inner, short[:1])
        for guess in self._guesses:
            for count in short:
                if {*inner, *rest} <= self._induced.keys():
                    break
                prove_open(rest, [count], guess)
                if prove_open(inner, short):
                    prove_open(rest, [count], guess)
                if {*rest} - {*timed} <= self._induced.keys():
                    prove_open(timed, long)
        # Whatever is computed, what control says may suffice.
        prove_open(inner, short, near=near)

    def solve(self, name: str, limit_seconds: float) -> Verdict:
        """Prove an assertion, or find a fault, or say how far there is none.

        What was proved before is taken for granted.
        """
        start = time.monotonic()
        number = self._numbers[name]
        if number in self._induced:
            return Verdict("proved", self._induced[number])
        text, self._skipped = self._induction.sequential(number)
        (self._folder / CIRCUIT).write_bytes(text)
        if number in self._reached:
            verdict = self._search(limit_seconds, self._reached[number])
            if verdict.status == "bounded":
                verdict = Verdict("refuted", self._reached[number])
        else:
            verdict = self._prove(name, limit_seconds / SHORT_SEARCH)
            if verdict.status == "bounded":
                verdict = self._look(number, limit_seconds)
            if verdict.status == "bounded":
                (self._folder / CIRCUIT).write_bytes(text)
                verdict = self._prove(name, limit_seconds)
        if verdict.status == "bounded":
            verdict = self._search(limit_seconds)
        if verdict.status == "proved":
            self._induction.grant(number)
        return replace(verdict, seconds=time.monotonic() - start)

    def _prove(self, name: str, limit_seconds: float) -> Verdict:
        text = self._abc(f"pdr -v -T {max(1, round(limit_seconds))}", limit_seconds)
        verdict = outcome(text) or Verdict("bounded", 0)
        return replace(verdict, fault=self._trace()) if verdict.status == "refuted" else verdict

    def _look(self, number: int, limit_seconds: float) -> Verdict:
        """Prove an assertion by looking at all states; of data at what is followed."""
        literal = self._step.bad[number]
        named = self._named(range(len(self._step.latches)))
        reach = Reach(self._step, [literal], self.names.inputs, named, self._control)
        reached = reach.found(long_search(limit_seconds))
        if reached is None or not reached.claims:
            return Verdict("bounded", 0)
        return Verdict("proved", reached.cycles, states=reached.states)

    def _search(self, limit_seconds: float, most_cycles: int = 0) -> Verdict:
        limit = max(1, round(limit_seconds))
        text = self._abc(f"bmc3 -F {most_cycles or MOST_CYCLES} -T {limit} -v", limit_seconds)
        if fault := _FAULT.search(text):
            return Verdict("refuted", int(fault[1]) + 1, fault=self._trace())
        frames = [int(number) for number in re.findall(r"^\s*(\d+) [+:]", text, re.MULTILINE)]
        return Verdict("bounded", max(frames, default=0) + 1)

    def _abc(self, command: str, limit_seconds: float) -> str:
        script = f"read_aiger {CIRCUIT}; strash; {command}; write_cex -a {FAULT}"
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
                process_group=tool_group(),
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
            for place, (name, offset) in self.names.inputs.items():
                bit = int(row[self._skipped + place]) << offset
                values[name] = values.get(name, 0) | bit
            values.pop("clk", None)
            words = " ".join(f"{name}={value:x}" for name, value in values.items())
            lines.append(f"cycle {cycle}: {words}")
        return tuple(lines)


def long_search(limit_seconds: float) -> float:
    """Return the seconds of a long search, of those of a short one."""
    return max(limit_seconds, min(LONG_SEARCH * limit_seconds, LONG_SECONDS))


def outcome(text: str) -> Verdict | None:
    """ABC's verdict on a property; None where it came to no end.

    An invariant that it did not check, as when time ran out just then, is no proof.
    """
    if _PROVED.search(text):
        invariant = _INVARIANT.search(text)
        if invariant and not _VERIFIED.search(text):
            return None
        return Verdict(
            "proved", int(invariant[1]) if invariant else 1, int(invariant[2]) if invariant else 0
        )
    if fault := _FAULT.search(text):
        return Verdict("refuted", int(fault[1]) + 1)
    return None


def failure(text: str) -> str:
    """Return the first error in what Yosys and its front end say."""
    lines = [line.strip() for line in text.splitlines()]
    errors = [line for line in lines if "ERROR: " in line]
    return (errors or lines or ["it said nothing"])[0]
