"""One cycle of a circuit, read from a file of Yosys."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


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
        ands, data, place = [], lines[-1], 0

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
            ands.append((left, left - delta()))
        asserted, assumed = tuple(literals[:bad]), tuple(literals[bad:])
        return cls(inputs, tuple(latches), asserted, assumed, tuple(ands), shown)


def cone(circuit: Transition, literals: Collection[int]) -> set[int]:
    """Return the variables that literals depend on in one cycle."""
    first = 1 + circuit.inputs + len(circuit.latches)
    variables: set[int] = set()
    waiting = [literal >> 1 for literal in literals]
    while waiting:
        place = waiting.pop()
        if place in variables:
            continue
        variables.add(place)
        if place >= first:
            waiting += [operand >> 1 for operand in circuit.gates[place - first]]
    return variables


def cone_registers(circuit: Transition, literals: Collection[int]) -> list[int]:
    """Return the numbers of registers that literals depend on, in any number of cycles."""
    first, gates = 1 + circuit.inputs, 1 + circuit.inputs + len(circuit.latches)
    needed: set[int] = set()
    waiting: set[int] = set(literals)
    while waiting:
        new = {place - first for place in cone(circuit, waiting) if first <= place < gates} - needed
        needed |= new
        waiting = {circuit.latches[place][0] for place in new}
    return sorted(needed)
