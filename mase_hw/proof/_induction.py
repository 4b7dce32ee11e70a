"""k-induction over all assertions of a circuit at once.

A set of claims holds for all times if it holds in the first cycles, and if in any k cycles in which
it holds it holds in the next one too. Claims that a counterexample refutes leave the set, until
there is none: what is left supports itself. Beside the assertions, the set begins with relations
that are guessed from runs (`_relations.py`), such as those that tie counts of the environment to
those of the module.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path
from time import monotonic
from typing import Protocol

from mase_hw._processes import tool_group
from mase_hw.proof._network import FALSE, TRUE, Network
from mase_hw.proof._transition import Transition, cone, cone_registers

# Kinds of claims.
ASSERT, RELATION = "assert", "relation"
FILE = "induction.aig"
SEARCH = "strash; bmc3 -a -x -g -F 1"
ASSERTED = re.compile(r"Output +(\d+) was asserted in frame")


Claim = tuple[str, int]


class Relation(Protocol):
    """Something that is said of the registers of one cycle."""

    @property
    def registers(self) -> frozenset[int]:
        """Numbers of the registers in the relation."""

    def holds(self, network: Network, literals: Sequence[int]) -> int:
        """Return the literal that says so, for literals of the registers."""


class _Run:
    """Cycles of a circuit, from the reset or from anywhere.

    Args:
        circuit: one cycle.
        kept: numbers of the registers that are looked at; others hold anything in each cycle.
        needed: the gates that are looked at.
        cycles: how many.
        start: whether the run begins with the reset.
    """

    def __init__(
        self,
        circuit: Transition,
        kept: Collection[int],
        needed: Collection[int],
        cycles: int,
        start: bool,
    ) -> None:
        self.network, self.start = Network(), start
        self._circuit = circuit
        self._told: dict[tuple[int, Claim], int] = {}
        self.frames: list[list[int]] = []
        frame: list[int] = []
        for following, first in circuit.latches:
            # What is set for ever after the first cycle tells later cycles from it.
            later = following == TRUE and not start
            free = first is None or not start
            frame.append(TRUE if later else self.network.input() if free else (first or FALSE))
        for _ in range(cycles):
            self.frames.append(cycle_literals(self.network, circuit, frame, needed))
            frame = [
                at(self.frames[-1], following) if place in kept else self.network.input()
                for place, (following, _) in enumerate(circuit.latches)
            ]
        # Assertions that this run has the gates of.
        gates = set(needed)
        first = 1 + circuit.inputs + len(circuit.latches)
        self.granted = {
            (ASSERT, number)
            for number, literal in enumerate(circuit.bad)
            if all(place in gates for place in cone(circuit, [literal]) if place >= first)
        }
        self.held = self.network.all(
            [at(frame, literal) for frame in self.frames for literal in circuit.constraints]
        )

    def breach(self, cycle: int, claim: Claim, relations: Sequence[Relation]) -> int:
        """Return the literal that says that a claim does not hold in a cycle."""
        key = (cycle, claim)
        if key not in self._told:
            kind, number = claim
            frame = self.frames[cycle]
            if kind == ASSERT:
                self._told[key] = at(frame, self._circuit.bad[number])
            else:
                first = 1 + self._circuit.inputs
                registers = frame[first : first + len(self._circuit.latches)]
                self._told[key] = relations[number].holds(self.network, registers) ^ 1
        return self._told[key]


def at(frame: Sequence[int], literal: int) -> int:
    """Literal of a circuit in a cycle."""
    return frame[literal >> 1] ^ (literal & 1)


def cycle_literals(
    network: Network, circuit: Transition, registers: Sequence[int], needed: Collection[int]
) -> list[int]:
    """Return the literal of each variable of a circuit in one cycle; of gates, of those needed."""
    frame = [FALSE, *(network.input() for _ in range(circuit.inputs)), *registers]
    first = len(frame)
    frame += [FALSE] * len(circuit.gates)
    for place in needed:
        left, right = circuit.gates[place - first]
        frame[place] = network.both(at(frame, left), at(frame, right))
    return frame


class Induction:
    """Proofs by k-induction.

    Args:
        circuit: one cycle.
        relations: guesses.
        solver: ABC.
        folder: where files are written.
    """

    def __init__(
        self, circuit: Transition, relations: Sequence[Relation], solver: Path, folder: Path
    ) -> None:
        self._circuit, self._relations = circuit, list(relations)
        self._solver, self._folder = solver, folder
        # What is proved holds in every cycle.
        self._granted: set[Claim] = set()

    def proved(
        self,
        wanted: Sequence[int],
        cycles: int,
        limit_seconds: float,
        *,
        guess: Collection[int] = (),
        near: Sequence[int] = (),
    ) -> set[int]:
        """Return which of the assertions `cycles`-induction proves, together with guesses.

        Args:
            wanted: the assertions.
            cycles: in which claims hold before the last one.
            limit_seconds: for all searches.
            guess: numbers of relations to be proved, too.
            near: further assertions, for which registers that they do not see hold anything.
        """
        end = monotonic() + limit_seconds
        claims = {(ASSERT, number) for number in (*wanted, *near)}
        claims |= {(RELATION, number) for number in guess}
        claims -= self._granted
        kept, needed = self._looked_at(wanted, near)
        begins, later = (
            _Run(self._circuit, kept, needed, count, start)
            for count, start in ((cycles + 2, True), (cycles + 1, False))
        )
        began = False
        while claims:
            # Fewer claims begin as well as more.
            broken = set() if began else self._broken(begins, claims, end)
            if broken is not None and not broken:
                began = True
                broken = self._broken(later, claims, end)
            if broken is None:
                return set()
            if not broken:
                break
            claims -= broken
        self._granted |= claims
        return {number for kind, number in self._granted if kind == ASSERT}

    def _looked_at(
        self, wanted: Sequence[int], near: Sequence[int] = ()
    ) -> tuple[set[int], list[int]]:
        """Return the registers and gates that matter to assertions, to relations and to rules."""
        circuit = self._circuit
        first = 1 + circuit.inputs + len(circuit.latches)
        literals = [*(circuit.bad[number] for number in wanted), *circuit.constraints]
        kept = set(cone_registers(circuit, literals))
        for item in self._relations:
            kept |= item.registers
        literals += [circuit.bad[number] for number in near]
        seen = cone(circuit, literals)
        kept |= {place - 1 - circuit.inputs for place in seen if circuit.inputs < place < first}
        literals += [circuit.latches[place][0] for place in kept]
        literals += [
            circuit.bad[number]
            for kind, number in self._granted
            if kind == ASSERT and kept.issuperset(cone_registers(circuit, [circuit.bad[number]]))
        ]
        return kept, sorted(place for place in cone(circuit, literals) if place >= first)

    def _broken(self, run: _Run, claims: set[Claim], end: float) -> set[Claim] | None:
        """Return claims that a run breaks in its last cycle; None where time ran out.

        From the start, any cycle may break them.
        """
        network, last = run.network, len(run.frames) - 1
        held = [run.held]
        told: list[dict[Claim, int]] = []
        for cycle in range(last + 1):
            # Before the end of the reset, registers hold anything.
            early = run.start and not cycle
            held += [
                run.breach(cycle, claim, self._relations) ^ 1
                for claim in sorted(self._granted)
                if (claim in run.granted if claim[0] == ASSERT else not early)
            ]
            breaches = {
                claim: run.breach(cycle, claim, self._relations)
                for claim in claims
                if claim[0] == ASSERT or not early
            }
            if run.start or cycle == last:
                told.append(breaches)
            else:
                held += [literal ^ 1 for literal in breaches.values()]
        always = network.all(held)
        outputs = []
        for claim in claims:
            breach = network.any([breaches[claim] for breaches in told if claim in breaches])
            output = network.both(always, breach)
            if output != FALSE:
                outputs.append((claim, output))
        if not outputs:
            return set()
        happens = self._happening(network, [output for _, output in outputs], end - monotonic())
        return None if happens is None else {outputs[number][0] for number in happens}

    def grant(self, number: int) -> None:
        """Take an assertion for granted."""
        self._granted.add((ASSERT, number))

    def sequential(self, number: int) -> tuple[bytes, int]:
        """Return a circuit for one assertion, and how many inputs stand before those of the whole.

        Its output says that the assertion fails for the first time, in a run in which rules and
        what is proved hold. Registers start with 0; one that may start with anything is an input in
        the first cycle.
        """
        circuit, network = self._circuit, Network()
        literals = [circuit.bad[number], *circuit.constraints]
        inner = set(cone_registers(circuit, literals))
        literals += [circuit.latches[place][0] for place in inner]
        helpful = [
            other
            for kind, other in sorted(self._granted)
            if kind == ASSERT
            and other != number
            and set(cone_registers(circuit, [circuit.bad[other]])) <= inner
        ]
        literals += [circuit.bad[other] for other in helpful]
        gates = 1 + circuit.inputs + len(circuit.latches)
        needed = sorted(place for place in cone(circuit, literals) if place >= gates)
        started, broken = network.input(), network.input()
        following = {started: TRUE}
        frame, own = [], {}
        free: list[int] = []
        for place, (_, first) in enumerate(circuit.latches):
            if place not in inner:
                frame.append(FALSE)
                continue
            own[place] = register = network.input()
            begin = first if first is not None else network.input()
            if first is None:
                free.append(begin)
            frame.append(network.choose(started, register, begin))
        cycle = cycle_literals(network, circuit, frame, needed)
        for place, register in own.items():
            following[register] = at(cycle, circuit.latches[place][0])
        rules = [at(cycle, literal) for literal in circuit.constraints]
        rules += [at(cycle, circuit.bad[other]) ^ 1 for other in helpful]
        for kind, other in sorted(self._granted):
            if kind == RELATION and self._relations[other].registers <= inner:
                said = self._relations[other].holds(network, frame)
                rules.append(network.any([said, started ^ 1]))
        kept = network.all(rules)
        following[broken] = network.any([broken, kept ^ 1])
        fails = network.all([at(cycle, circuit.bad[number]), kept, broken ^ 1])
        return network.text([fails], following), len(free) + 1

    def _happening(
        self, network: Network, outputs: Sequence[int], limit_seconds: float
    ) -> list[int] | None:
        """Return which outputs can be true; None where time ran out."""
        if limit_seconds <= 0:
            return None
        # A bounded search of one cycle; it wants a register.
        circuit = network.text(outputs, {network.idle: FALSE}, network.needed_inputs(outputs))
        (self._folder / FILE).write_bytes(circuit)
        try:
            done = subprocess.run(
                [str(self._solver), "-c", f"read_aiger {FILE}; {SEARCH}"], cwd=self._folder,
                capture_output=True, text=True, errors="replace", check=False,
                timeout=limit_seconds, process_group=tool_group(),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
        numbers = [int(number) for number in ASSERTED.findall(done.stdout)]
        # A solver that says nothing has not shown that nothing happens.
        settled = not done.returncode and "No output asserted" in done.stdout
        return numbers if numbers or settled else None
