"""Numbers that tell where data lies that is followed: registers, sums of them, and what is equal.

The harness follows a lane from where it enters (`templates/proof.sv.j2`): KEPT holds what entered,
EARLIER counts the results that leave before the one that shows it. Where it lies in the cell, a
pointer, a count, or a sum of what is under way says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mase_hw.proof._network import FALSE, TRUE, Network
from mase_hw.proof._relations import LINES
from mase_hw.proof._transition import Transition, cone

States = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int64]
KEPT, EARLIER = "kept_q", "earlier_q"
# Registers that count what is left of a credit: with them, results on their way are counted.
CREDITS = "u_left.level_q"
# Bits of a register that is looked at as a whole.
WHOLE_BITS = 6


@dataclass(frozen=True)
class Number:
    """A sum of bits with factors, modulo a power of two.

    Attributes:
        terms: bit and factor of each.
        width: bits of the sum.
    """

    terms: tuple[tuple[int, int], ...]
    width: int

    @property
    def registers(self) -> frozenset[int]:
        """Their numbers."""
        return frozenset(bit for bit, _ in self.terms)

    def codes(self, states: States) -> Codes:
        """Return its value in each state."""
        total = np.zeros(len(states), np.int64)
        for bit, factor in self.terms:
            total += states[:, bit].astype(np.int64) * factor
        return total & ((1 << self.width) - 1)

    def moved(self, numbers: Sequence[int]) -> Number:
        """Return the same of other numbers of registers."""
        return Number(tuple((numbers[bit], factor) for bit, factor in self.terms), self.width)

    def bits(self, network: Network, literals: Sequence[int]) -> list[int]:
        """Return its bits, the lowest first."""
        columns: list[list[int]] = [[] for _ in range(self.width)]
        for bit, factor in self.terms:
            for place in range(self.width):
                if factor >> place & 1:
                    columns[place].append(literals[bit])
        found = []
        for place, column in enumerate(columns):
            while len(column) > 1:
                left, right = column.pop(), column.pop()
                differ = network.differ(left, right)
                third = column.pop() if column else FALSE
                column.append(network.differ(differ, third))
                if place + 1 < self.width:
                    carry = [network.both(left, right), network.both(differ, third)]
                    columns[place + 1].append(network.any(carry))
            found.append(column[0] if column else FALSE)
        return found


@dataclass(frozen=True)
class Alike:
    """Whether some registers are equal, one by one: 1 where all are.

    Attributes:
        left: numbers of registers.
        right: likewise.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    width: int = 1

    @property
    def registers(self) -> frozenset[int]:
        """Their numbers."""
        return frozenset((*self.left, *self.right))

    def codes(self, states: States) -> Codes:
        """Return its value in each state."""
        same: npt.NDArray[np.bool_] = (states[:, self.left] == states[:, self.right]).all(axis=1)
        return same.astype(np.int64)

    def moved(self, numbers: Sequence[int]) -> Alike:
        """Return the same of other numbers of registers."""
        left, right = (tuple(numbers[bit] for bit in bits) for bits in (self.left, self.right))
        return Alike(left, right)

    def bits(self, network: Network, literals: Sequence[int]) -> list[int]:
        """Return its bit."""
        pairs = zip(self.left, self.right, strict=True)
        return [network.any([network.differ(literals[a], literals[b]) for a, b in pairs]) ^ 1]


Feature = Number | Alike


@dataclass(frozen=True)
class Barred:
    """Values that some features do not take together.

    Attributes:
        features: the first has the lowest bits.
        allowed: for each value, whether it may be.
    """

    features: tuple[Feature, ...]
    allowed: tuple[bool, ...]

    @cached_property
    def registers(self) -> frozenset[int]:
        """Their numbers."""
        return frozenset().union(*(item.registers for item in self.features))

    def holds(self, network: Network, literals: Sequence[int]) -> int:
        """Return the literal that says so, for literals of the registers."""
        level = [TRUE if value else FALSE for value in self.allowed]
        for item in self.features:
            for bit in item.bits(network, literals):
                level = [
                    network.choose(bit, high, low)
                    for low, high in zip(level[::2], level[1::2], strict=True)
                ]
        return level[0]


def features(
    states: States,
    groups: Mapping[str, Sequence[int]],
    data: Collection[str],
    lanes: Collection[int],
) -> tuple[list[Feature], list[Feature]]:
    """Return what may tell where data lies: registers, sums and lanes as a whole; and bit by bit.

    Args:
        states: `[states, registers]` bits.
        groups: numbers of the bits of each register, the lowest first.
        data: names of the registers of data.
        lanes: bits of a lane.
    """
    control = {name: bits for name, bits in groups.items() if name not in {*data, KEPT}}
    shortened = {name: _shortened(states, bits) for name, bits in control.items()}
    whole: list[Feature] = []
    if EARLIER in control:
        whole += [*_sums(control, shortened[EARLIER]), _number([groups[EARLIER][-1]])]
    single: list[Feature] = []
    for name, bits in control.items():
        short = shortened[name]
        if not name.endswith(LINES) and len(short) <= WHOLE_BITS:
            whole.append(_number(short))
        (whole if name.endswith(LINES) else single).extend(_number([bit]) for bit in bits)
        whole += [Alike((bit,), (short[-1],)) for bit in bits[len(short) :]]
    for name in data:
        for lane in lanes:
            bits = groups[name] if len(groups[name]) % lane == 0 else ()
            for low in range(0, len(bits), lane):
                part = tuple(bits[low : low + lane])
                whole.append(Alike(part, tuple(groups[KEPT][:lane])))
                pairs = zip(part, groups[KEPT], strict=False)
                whole += [Alike((one,), (two,)) for one, two in pairs]
    return list(dict.fromkeys(whole)), list(dict.fromkeys(single))


def _number(bits: Sequence[int]) -> Number:
    return Number(tuple((bit, 1 << place) for place, bit in enumerate(bits)), len(bits))


def _shortened(states: States, bits: Sequence[int]) -> list[int]:
    """Return the bits of a register without upper ones that are always as the one below."""
    found = list(bits)
    while len(found) > 1 and np.array_equal(states[:, found[-1]], states[:, found[-2]]):
        found.pop()
    return found


def _sums(control: Mapping[str, Sequence[int]], earlier: Sequence[int]) -> Iterator[Number]:
    """Yield how many results leave earlier that are not under way, or not beyond a stage."""
    yield _number(earlier)
    for name, level in control.items():
        if not name.endswith(CREDITS):
            continue
        width = max(len(earlier), len(level)) + 1
        terms = [(bit, 1 << place) for place, bit in enumerate(earlier)]
        terms[-1] = (terms[-1][0], -terms[-1][1])
        terms += [(bit, 1 << place) for place, bit in enumerate(level)]
        yield Number(tuple(terms), width)
        unit = name.removesuffix(CREDITS).rpartition("u_credits")[0]
        for line, bits in control.items():
            if unit and line.startswith(unit) and line.endswith(LINES):
                for stage in range(1, len(bits) + 1):
                    yield Number((*terms, *((bit, 1) for bit in bits[:stage])), width)


def data_registers(
    circuit: Transition, registers: Collection[int], kept: Sequence[int], control: Collection[int]
) -> set[int]:
    """Return the registers that depend on what KEPT sees of the inputs and control does not.

    Args:
        circuit: one cycle.
        registers: those that are asked for.
        kept: numbers of the bits of KEPT.
        control: numbers of the registers that control depends on.
    """
    latches = circuit.latches

    def inputs_of(places: Collection[int]) -> set[int]:
        return {
            p for p in cone(circuit, [latches[r][0] for r in places]) if 0 < p <= circuit.inputs
        }

    sources = inputs_of(kept) - inputs_of(control)
    first = 1 + circuit.inputs
    seen = {place: cone(circuit, [latches[place][0]]) for place in registers}
    found: set[int] = set()
    while True:
        new = {
            place
            for place, items in seen.items()
            if place not in found
            and (items & sources or any(first + other in items for other in found))
        }
        if not new:
            return found
        found |= new
