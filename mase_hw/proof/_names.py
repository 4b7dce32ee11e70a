"""The names of a circuit's inputs and registers, as Yosys writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


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
