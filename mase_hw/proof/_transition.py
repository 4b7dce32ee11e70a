"""One cycle of a circuit, read from a file of Yosys."""

from __future__ import annotations

import json
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


@dataclass(frozen=True)
class Names:
    """What `_circuits.py` says of the inputs and registers of a circuit.

    Attributes:
        inputs: name and bit of each input, by its number.
        registers: numbers of the bits of each register, the lowest first.
        roles: the attribute `mase_register` of registers that have one.
    """

    inputs: dict[int, tuple[str, int]]
    registers: dict[str, list[int]]
    roles: dict[str, str]

    @classmethod
    def read(cls, folder: Path, count: int) -> Names:
        """Names of a circuit with `count` bits of registers, from the files of a folder."""
        inputs: dict[int, tuple[str, int]] = {}
        bits: dict[str, dict[int, int]] = {}
        for line in (folder / "step.map").read_text().splitlines():
            kind, place, offset, name = line.split(maxsplit=3)
            if kind == "input":
                inputs.setdefault(int(place), (name, int(offset)))
            elif kind == "latch":
                bits.setdefault(name, {})[int(offset)] = int(place)
        registers = _registers(bits, count)
        roles = json.loads((folder / "roles.json").read_text())
        # A register may go by another name than the one with the attribute.
        of_bits = {frozenset(bits.get(name, {}).values()): role for name, role in roles.items()}
        roles = {
            name: of_bits[places]
            for name, numbers in registers.items()
            if (places := frozenset(numbers)) in of_bits
        }
        return cls(inputs, registers, roles)


def _registers(bits: dict[str, dict[int, int]], count: int) -> dict[str, list[int]]:
    """Return the numbers of each register's bits, each number once.

    A register that has several names goes by the widest, and of those by the shortest. Those that
    have none, such as an address that a memory reads at, are one register where they follow each
    other.
    """
    registers: dict[str, list[int]] = {}
    taken: set[int] = set()
    for name, places in sorted(bits.items(), key=lambda item: (-len(item[1]), len(item[0]))):
        left = [place for _, place in sorted(places.items()) if place not in taken]
        if left:
            registers[name] = left
            taken.update(left)
    group = ""
    for number in sorted(set(range(count)) - taken):
        if not group or number != registers[group][-1] + 1:
            group = f"unnamed {number}"
            registers[group] = []
        registers[group].append(number)
    return registers
