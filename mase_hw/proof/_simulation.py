"""Random runs of a circuit, thousands at a time: a bit of a word is a run.

Runs show what states occur, from which invariants are guessed (`_relations.py`), and reach what
must happen. Nothing is proved by them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mase_hw.proof._transition import Transition, cone, cone_registers

Words = npt.NDArray[np.uint64]
# Words of 64 runs; cycles of a run, and those of a phase in which an input keeps its habits.
WORDS, CYCLES, PHASE = 8, 320, 12
# Tries to find inputs that the environment allows.
TRIES = 6
SEED = 0


@dataclass(frozen=True)
class Runs:
    """What happened.

    Attributes:
        states: `[states, registers]` bits of those that are asked for, after the reset, each once.
        reached: the cycle in which each literal was first true, counted from 1, where it was.
    """

    states: npt.NDArray[np.uint8]
    reached: Mapping[int, int]


class Simulation:
    """Evaluates one cycle of a circuit, gates of a level at once.

    Args:
        circuit: one cycle.
        groups: the literals of each input's bits.
        wanted: literals that are needed, beside constraints and next values.
    """

    def __init__(
        self, circuit: Transition, groups: Sequence[Sequence[int]], wanted: Collection[int]
    ) -> None:
        self._circuit = circuit
        self._first_gate = 1 + circuit.inputs + len(circuit.latches)
        self.registers = cone_registers(circuit, [*wanted, *circuit.constraints])
        following = [circuit.latches[place][0] for place in self.registers]
        self._rules = self._levels(circuit.constraints)
        self._all = self._levels([*wanted, *following, *circuit.constraints])
        ruled = cone(circuit, circuit.constraints)
        named = {literal >> 1 for group in groups for literal in group}
        alone = [[2 * place] for place in range(1, circuit.inputs + 1) if place not in named]
        self._groups = [*map(list, groups), *alone]
        self._ruled = [group for group in self._groups if any(bit >> 1 in ruled for bit in group)]
        self._values: Words = np.zeros((2 * (self._first_gate + len(circuit.gates)), WORDS), "u8")
        self._values[1] = ~np.uint64(0)

    def _levels(self, literals: Collection[int]) -> list[tuple[npt.NDArray[np.int64], ...]]:
        """Return the gates that literals need, and their operands, level by level."""
        circuit, first = self._circuit, self._first_gate
        height: dict[int, int] = {}
        rows: dict[int, list[tuple[int, int, int]]] = {}
        for place in sorted(item for item in cone(circuit, literals) if item >= first):
            left, right = circuit.gates[place - first]
            level = 1 + max(height.get(left >> 1, 0), height.get(right >> 1, 0))
            height[place] = level
            rows.setdefault(level, []).append((2 * place, left, right))
        return [
            tuple(np.array(column) for column in zip(*rows[level], strict=True))
            for level in sorted(rows)
        ]

    def _evaluate(self, levels: Sequence[tuple[npt.NDArray[np.int64], ...]]) -> None:
        values = self._values
        for place, left, right in levels:
            conjunction = values[left] & values[right]
            values[place], values[place + 1] = conjunction, ~conjunction

    def _set(self, literals: Sequence[int], words: Words) -> None:
        place = np.array(literals)
        self._values[place], self._values[place ^ 1] = words, ~words

    def _allowed(self) -> Words:
        self._evaluate(self._rules)
        conjunction = np.full(WORDS, ~np.uint64(0))
        for literal in self._circuit.constraints:
            conjunction &= self._values[literal]
        return conjunction

    def run(self, shown: Sequence[int], watched: Collection[int], cycles: int = CYCLES) -> Runs:
        """Run from any state before a reset.

        Args:
            shown: numbers of registers whose states are kept.
            watched: literals; it is kept when each was first true.
            cycles: of each run.
        """
        chance = np.random.default_rng(SEED)
        registers = [2 * (1 + self._circuit.inputs + place) for place in self.registers]
        kept = np.array([2 * (1 + self._circuit.inputs + place) for place in shown], int)
        following = np.array([self._circuit.latches[place][0] for place in self.registers], int)
        for place, literal in zip(self.registers, registers, strict=True):
            first = self._circuit.latches[place][1]
            words = _random(chance) if first is None else np.full(WORDS, -first).astype("u8")
            self._set([literal], words)
        alive = np.full(WORDS, ~np.uint64(0))
        habits: list[Words] = []
        reached: dict[int, int] = {}
        samples: list[npt.NDArray[np.uint8]] = []
        for cycle in range(cycles):
            if cycle % PHASE == 0:
                habits = [chance.integers(0, 8, 64 * WORDS) for _ in self._groups]  # type: ignore[misc]
            alive &= self._drive(chance, habits)
            self._evaluate(self._all)
            for literal in watched:
                if literal not in reached and (self._values[literal] & alive).any():
                    reached[literal] = cycle + 1
            after = self._values[following]
            if cycle and kept.size:
                bits = _bits(self._values[kept])[:, _bits(alive[None])[0] > 0]
                samples.append(np.packbits(bits, axis=0).T)
            self._set(registers, after)
        if not samples:
            return Runs(np.zeros((0, len(shown)), np.uint8), reached)
        states = np.unique(np.concatenate(samples), axis=0)
        return Runs(np.unpackbits(states, axis=1)[:, : len(shown)], reached)

    def _drive(self, chance: np.random.Generator, habits: Sequence[Words]) -> Words:
        """Give every run inputs that the environment allows; return which have them."""
        before = {bit: self._values[bit].copy() for group in self._groups for bit in group}
        for group, habit in zip(self._groups, habits, strict=True):
            self._set(group, np.stack([_random(chance, habit) for _ in group]))
        good = self._allowed()
        for _ in range(TRIES):
            if (good == ~np.uint64(0)).all():
                break
            # As before, which is right of what is held; then one by one something else.
            for group in self._ruled:
                old = np.stack([before[bit] for bit in group])
                now = self._values[np.array(group)]
                self._set(group, (now & good) | (old & ~good))
            for group in self._ruled:
                now = self._values[np.array(group)].copy()
                new = np.stack([_random(chance) for _ in group])
                self._set(group, (now & good) | (new & ~good))
                better = self._allowed() | good
                self._set(group, (self._values[np.array(group)] & better) | (now & ~better))
            good = self._allowed()
        return good


def _bits(words: Words) -> npt.NDArray[np.uint8]:
    """Return the runs of words `[rows, words]` as bits `[rows, runs]`."""
    octets = np.ascontiguousarray(words.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little")


def _random(chance: np.random.Generator, habit: Words | None = None) -> Words:
    """Return random bits; with `habit`, a run of habit 0 to 7 has a bit of that many eighths."""
    if habit is None:
        return chance.integers(0, 1 << 64, WORDS, np.uint64)
    drawn = chance.integers(0, 7, 64 * WORDS) < habit
    return np.packbits(drawn, bitorder="little").view("<u8").astype(np.uint64)
