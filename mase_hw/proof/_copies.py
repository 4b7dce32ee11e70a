"""Relations between two copies of a module, guessed from runs of both.

Registers of data are not reset: two copies that start in any two states differ in them until they
are written, and where nobody looks. When they are equal, registers of control say, which are equal
soon after a reset: a stage that is valid, a place of a queue between its pointers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from mase_hw.proof._network import FALSE, TRUE, Network
from mase_hw.proof._relations import STAGES

Bools = npt.NDArray[np.bool_]
States = npt.NDArray[np.uint8]
COPIES = ("one.", "two.")
# Bits of a register of control, of several of them together, and how many are tried of each
# register of data: the nearest in the hierarchy.
CONTROL_BITS, TOGETHER_BITS, NEAREST = 4, 9, 14
# Conditions of a register of data: that name one register, and that say the most.
SINGLES, BEST, ALMOST = 2, 6, 0.98


@dataclass(frozen=True)
class Equal:
    """Two registers that are equal unless some others have certain values.

    Attributes:
        left: numbers of registers.
        right: likewise.
        beside: those others; the first is the lowest bit.
        apart: for each value of these, whether the two may differ.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    beside: tuple[int, ...]
    apart: tuple[bool, ...]

    @cached_property
    def registers(self) -> frozenset[int]:
        """Numbers of the registers in the relation."""
        return frozenset((*self.left, *self.right, *self.beside))

    def moved(self, numbers: Sequence[int]) -> Equal:
        """Return the same of other numbers of registers."""
        left, right, beside = (
            tuple(numbers[bit] for bit in bits) for bits in (self.left, self.right, self.beside)
        )
        return Equal(left, right, beside, self.apart)

    def holds(self, network: Network, literals: Sequence[int]) -> int:
        """Return the literal that says so, for literals of the registers."""
        level = [TRUE if value else FALSE for value in self.apart]
        for place in self.beside:
            level = [
                network.choose(literals[place], high, low)
                for low, high in zip(level[::2], level[1::2], strict=True)
            ]
        differ = [
            network.differ(literals[left], literals[right])
            for left, right in zip(self.left, self.right, strict=True)
        ]
        return network.any([level[0], network.any(differ) ^ 1])


class Copies:
    """What runs of two copies show.

    Args:
        states: `[states, registers]` bits.
        groups: numbers of the bits of each register by name, which begins with the copy's.
        roles: what registers are, by name.
    """

    def __init__(
        self, states: States, groups: Mapping[str, Sequence[int]], roles: Mapping[str, str]
    ) -> None:
        self._states, self._roles = states, roles
        self._same: list[Equal] = []
        # Registers of the first copy that are always as in the second one; and the others of both.
        self.control: dict[str, tuple[int, ...]] = {}
        self._data: dict[str, tuple[tuple[int, ...], tuple[int, ...], Bools]] = {}
        for name, bits in groups.items():
            stem = name.removeprefix(COPIES[0])
            other = groups.get(COPIES[1] + stem)
            if stem == name or other is None or len(other) != len(bits) or not len(states):
                continue
            left, right = tuple(bits), tuple(other)
            apart: Bools = (states[:, left] != states[:, right]).any(axis=1)
            if apart.any():
                self._data[stem] = left, right, apart
            else:
                self._same.append(Equal(left, right, (), (False,)))
                self.control[name] = left

    def equalities(self) -> Iterator[Equal]:
        """Yield when registers of the copies are equal in all states."""
        yield from self._same
        small: dict[str, tuple[int, ...]] = {}
        for name, bits in self.control.items():
            if self._roles.get(name) == STAGES:
                small |= {f"{name}[{place}]": (bit,) for place, bit in enumerate(bits)}
            elif len(bits) <= CONTROL_BITS:
                small[name] = bits
        for stem, (left, right, apart) in self._data.items():
            near = sorted(small, key=lambda name: -_common(COPIES[0] + stem, name))[:NEAREST]
            beside = [bit for name in near for bit in small[name]]
            # Each value of these with whether the two differ, once.
            packed = np.packbits(np.column_stack([apart, self._states[:, beside]]), axis=1)
            words = np.zeros((len(packed), 8), np.uint8)
            words[:, : packed.shape[1]] = packed
            rows = np.unique(words.view(np.uint64)).view(np.uint8).reshape(-1, 8)
            seen = np.unpackbits(rows, axis=1)[:, : 1 + len(beside)]
            places = iter(range(len(beside)))
            control = [tuple(next(places) for _ in small[name]) for name in near]
            for chosen, differs in _conditions(seen[:, 1:], control, seen[:, 0] > 0):
                yield Equal(left, right, tuple(beside[bit] for bit in chosen), differs)


def _conditions(
    states: States, control: Sequence[tuple[int, ...]], apart: Bools
) -> list[tuple[tuple[int, ...], tuple[bool, ...]]]:
    """Return registers, and for which of their values two others may differ: the best ones.

    Those that say so of almost as many states as any, the fewest registers first.
    """
    differing: dict[tuple[int, ...], Bools] = {}
    conditions: list[tuple[int, int, tuple[int, ...], Bools]] = []
    for count in (1, 2, 3):
        for chosen in combinations(range(len(control)), count):
            beside = tuple(bit for item in chosen for bit in control[item])
            if len(beside) > TOGETHER_BITS:
                continue
            codes = states[:, list(beside)].astype(np.int64) @ (1 << np.arange(len(beside)))
            size = 1 << len(beside)
            differs = np.bincount(codes[apart], minlength=size) > 0
            differing[chosen] = differs
            # What fewer registers say of it.
            allowed = np.ones(size, bool)
            for less in (c for n in range(1, count) for c in combinations(chosen, n)):
                if less in differing:
                    allowed &= differing[less][_within(chosen, less, control, size)]
            if (np.isin(np.arange(size), codes) & allowed & ~differs).any():
                conditions.append((count, int((~differs[codes]).sum()), beside, differs))
    best = [
        item for item in conditions if item[1] >= ALMOST * max(other[1] for other in conditions)
    ]
    single = sorted((item for item in conditions if item[0] == 1), key=lambda item: -item[1])
    kept = {item[2]: item for item in (*single[:SINGLES], *best[:BEST])}
    return [(beside, tuple(differs.tolist())) for _, _, beside, differs in kept.values()]


def _within(
    chosen: Sequence[int], less: Sequence[int], control: Sequence[tuple[int, ...]], size: int
) -> npt.NDArray[np.int64]:
    """Return the value of fewer registers for each value of more."""
    every, fewer_codes, low, shift = np.arange(size), np.zeros(size, np.int64), 0, 0
    for item in chosen:
        width = len(control[item])
        if item in less:
            fewer_codes |= (every >> low & ((1 << width) - 1)) << shift
            shift += width
        low += width
    return fewer_codes


def _common(left: str, right: str) -> int:
    """Return how many instances two names have in common."""
    pairs = zip(left.split(".")[:-1], right.split(".")[:-1], strict=False)
    common = 0
    for one, two in pairs:
        if one != two:
            break
        common += 1
    return common
