"""k-induction over all assertions of a circuit at once.

A set of claims holds for all times if it holds in the first cycles, and if in any k cycles in which
it holds it holds in the next one too. Claims that a counterexample refutes leave the set, until
there is none: what is left supports itself. Beside the assertions, the set begins with guesses that
relate counters, so that counts of the environment are tied to those of the module.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

TRUE, FALSE = 1, 0
# In place of the first operand, for an input.
INPUT = -1
# Kinds of claims.
ASSERT, EQUAL = "assert", "equal"
FILE, MODEL = "induction.aig", "induction.txt"
# Registers of the environment and of the module that count the same, it may be.
OUTER, INNER = ("_room_q", "_owed_q"), ("level_q",)


@dataclass(frozen=True)
class Transition:
    """One cycle of a circuit, read from the binary format AIGER 1.9.

    Literals are twice a variable, and one more for its opposite.

    Attributes:
        inputs: number of inputs, the first variables.
        latches: for each register, the literal of its next value; its first value, or None.
        bad: the literal of each assertion's breach.
        constraints: literals that always hold.
        gates: both operands of each further variable.
        outputs: literals that are shown.
    """

    inputs: int
    latches: tuple[tuple[int, int | None], ...]
    bad: tuple[int, ...]
    constraints: tuple[int, ...]
    gates: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Transition:
        """Return the circuit of a file."""
        header, _, rest = path.read_bytes().partition(b"\n")
        _, inputs, registers, outputs, gates, bad, constraints = (
            *map(int, header.split()[1:]), 0, 0,
        )[:7]  # fmt: skip
        lines = rest.split(b"\n", registers + outputs + bad + constraints)
        latches = []
        for place, line in enumerate(lines[:registers]):
            words = [int(word) for word in line.split()]
            first = words[1] if len(words) > 1 else 0
            own = 2 * (1 + inputs + place)
            latches.append((words[0], None if first == own else first))
        shown = tuple(int(line) for line in lines[registers : registers + outputs])
        literals = [int(line) for line in lines[registers + outputs : -1]]
        found, data, place = [], lines[-1], 0

        def delta() -> int:
            nonlocal place
            value, shift = 0, 0
            while True:
                byte = data[place]
                place += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value

        for number in range(gates):
            own = 2 * (1 + inputs + registers + number)
            left = own - delta()
            found.append((left, left - delta()))
        asserted, assumed = tuple(literals[:bad]), tuple(literals[bad:])
        return cls(inputs, tuple(latches), asserted, assumed, tuple(found), shown)


class Network:
    """Gates that are made one by one, and asked of a SAT solver."""

    def __init__(self) -> None:
        self.inputs = 0
        self._gates: list[tuple[int, int]] = []
        self._known: dict[tuple[int, int], int] = {}

    def input(self) -> int:
        """Return the literal of a new input."""
        self.inputs += 1
        return self._node((INPUT, self.inputs))

    def _node(self, gate: tuple[int, int]) -> int:
        self._gates.append(gate)
        return 2 * len(self._gates)

    def both(self, left: int, right: int) -> int:
        """Return the literal of a conjunction."""
        left, right = max(left, right), min(left, right)
        if right == FALSE or left == right ^ 1:
            return FALSE
        if right == TRUE or left == right:
            return left
        key = (left, right)
        if key not in self._known:
            self._known[key] = self._node(key)
        return self._known[key]

    def all(self, literals: Sequence[int]) -> int:
        """Return the literal of the conjunction of many."""
        found = TRUE
        for literal in literals:
            found = self.both(found, literal)
        return found

    def any(self, literals: Sequence[int]) -> int:
        """Return the literal of the disjunction of many."""
        return self.all([literal ^ 1 for literal in literals]) ^ 1

    def differ(self, left: int, right: int) -> int:
        """Return the literal of the exclusive disjunction."""
        return self.any([self.both(left, right ^ 1), self.both(left ^ 1, right)])

    def values(self, given: Sequence[bool]) -> list[bool]:
        """Return the value of every literal's variable, for values of the inputs."""
        found = [False]
        for gate in self._gates:
            if gate[0] == INPUT:
                found.append(given[gate[1] - 1])
            else:
                left, right = gate
                found.append(
                    found[left >> 1] ^ bool(left & 1) and found[right >> 1] ^ bool(right & 1)
                )
        return found

    def text(self, output: int, registers: Mapping[int, int] | None = None) -> bytes:
        """Return the network with one output in the binary format AIGER.

        Args:
            output: its literal.
            registers: the next value of each input that is a register, which starts with 0.
        """
        following = {literal >> 1: value for literal, value in (registers or {}).items()}
        places = range(1, len(self._gates) + 1)
        inputs = [place for place in places if self._gates[place - 1][0] == INPUT]
        free = [place for place in inputs if place not in following]
        gates = [place for place in places if self._gates[place - 1][0] != INPUT]
        order = {0: 0}
        for number, place in enumerate((*free, *following, *gates), 1):
            order[place] = number

        def renamed(literal: int) -> int:
            return 2 * order[literal >> 1] + (literal & 1)

        data = bytearray()
        for place in gates:
            right, left = sorted(renamed(literal) for literal in self._gates[place - 1])
            for value in (2 * order[place] - left, left - right):
                rest = value
                while rest >= 128:
                    data.append(rest & 127 | 128)
                    rest >>= 7
                data.append(rest)
        header = f"aig {len(order) - 1} {len(free)} {len(following)} 1 {len(gates)}\n"
        lines = [*(renamed(value) for value in following.values()), renamed(output)]
        return (header + "".join(f"{line}\n" for line in lines)).encode() + bytes(data)


Frame = list[int]


class Induction:
    """Proofs by k-induction.

    Args:
        circuit: one cycle.
        registers: the literals of each register's bits, by name.
        solver: ABC.
        folder: where files are written.
    """

    def __init__(
        self,
        circuit: Transition,
        registers: Mapping[str, Sequence[int]],
        solver: Path,
        folder: Path,
    ) -> None:
        self._circuit, self._solver, self._folder = circuit, solver, folder
        outer = [bits for name, bits in registers.items() if name.endswith(OUTER)]
        inner = [bits for name, bits in registers.items() if name.endswith(INNER)]
        self._pairs = list(product(outer, inner))
        # What is proved holds in every cycle.
        self._granted: set[tuple[str, int]] = set()

    def proved(self, wanted: Sequence[int], cycles: int, limit_seconds: float) -> set[int]:
        """Return which of the assertions `cycles`-induction proves, together with guesses."""
        claims = {(ASSERT, number) for number in wanted}
        claims |= {(EQUAL, number) for number in range(len(self._pairs))}
        claims -= self._granted
        while claims:
            first = self._broken(claims, cycles + 1, True, limit_seconds)
            broken = first or self._broken(claims, cycles, False, limit_seconds)
            if broken is None:
                return set()
            if not broken:
                break
            claims -= broken
        self._granted |= claims
        return {number for kind, number in self._granted if kind == ASSERT}

    def _broken(
        self, claims: set[tuple[str, int]], cycles: int, start: bool, limit_seconds: float
    ) -> set[tuple[str, int]] | None:
        """Return claims that a run breaks in its last cycle; None where time ran out.

        Args:
            claims: what holds in the cycles before; from the start, any cycle may break them.
            cycles: number of the last cycle.
            start: whether the run begins with the reset, or anywhere.
            limit_seconds: for the solver.
        """
        network, circuit = Network(), self._circuit
        frame: Frame = []
        for following, first in circuit.latches:
            # What is set for ever after the first cycle tells later cycles from it.
            later = following == TRUE and not start
            free = first is None or not start
            frame.append(TRUE if later else network.input() if free else (first or FALSE))
        held, told, breaches = [], list[dict[tuple[str, int], int]](), []
        for cycle in range(cycles + 1):
            literals = self._cycle(network, frame)

            def at(literal: int, literals: list[int] = literals) -> int:
                return literals[literal >> 1] ^ (literal & 1)

            held += [at(literal) for literal in circuit.constraints]
            # Before the end of the reset, registers hold anything.
            early = start and not cycle
            told.append(
                {
                    claim: self._breach(network, claim, at)
                    for claim in claims
                    if claim[0] == ASSERT or not early
                }
            )
            held += [
                self._breach(network, claim, at) ^ 1
                for claim in self._granted
                if claim[0] == ASSERT or not early
            ]
            breach = network.any(list(told[-1].values()))
            if start:
                breaches.append(breach)
            elif cycle < cycles:
                held.append(breach ^ 1)
            else:
                breaches.append(breach)
            frame = [at(following) for following, _ in circuit.latches]
        output = network.all([*held, network.any(breaches)])
        if output == FALSE:
            return set()
        model = self._model(network, output, limit_seconds)
        if model is None:
            return None
        if not model:
            return set()
        values = network.values(model)
        cycles_told = told if start else told[-1:]
        return {
            claim
            for breach in cycles_told
            for claim, literal in breach.items()
            if values[literal >> 1] ^ bool(literal & 1)
        }

    def _cycle(self, network: Network, frame: Frame) -> list[int]:
        """Return the literal of each variable of the circuit in one cycle."""
        literals = [FALSE, *(network.input() for _ in range(self._circuit.inputs)), *frame]
        for left, right in self._circuit.gates:
            literals.append(
                network.both(literals[left >> 1] ^ (left & 1), literals[right >> 1] ^ (right & 1))
            )
        return literals

    def _breach(self, network: Network, claim: tuple[str, int], at: object) -> int:
        kind, number = claim
        if kind == ASSERT:
            return at(self._circuit.bad[number])  # type: ignore[operator,no-any-return]
        left, right = self._pairs[number]
        size = max(len(left), len(right))
        pairs = zip(
            [*left, *[FALSE] * (size - len(left))],
            [*right, *[FALSE] * (size - len(right))],
            strict=True,
        )
        return network.any([network.differ(at(one), at(two)) for one, two in pairs])  # type: ignore[operator]

    def _model(self, network: Network, output: int, limit_seconds: float) -> list[bool] | None:
        """Return inputs that make an output true; none where it never is, None out of time."""
        (self._folder / FILE).write_bytes(network.text(output))
        (self._folder / MODEL).unlink(missing_ok=True)
        script = f"read_aiger {FILE}; sat; write_cex -s {MODEL}"
        try:
            done = subprocess.run(
                [str(self._solver), "-c", script], cwd=self._folder, capture_output=True,
                text=True, errors="replace", check=False, timeout=limit_seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
        if re.search(r"\bUNSATISFIABLE\b", done.stdout):
            return []
        text = (self._folder / MODEL).read_text() if (self._folder / MODEL).is_file() else ""
        bits = re.sub(r"\s", "", text)
        return [bit == "1" for bit in bits] if len(bits) >= network.inputs else None
