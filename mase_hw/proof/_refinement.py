"""Invariants that are asked for: what a counterexample to induction shows, and no run does.

Where one cycle leads from a state in which all claims hold to one in which a claim does not, either
a run comes to that state, or something is still to be said that excludes it. What matters of the
state is found first: registers without which the breach is as sure (three-valued simulation, as in
property directed reachability). Of these, as few as do not take these values together in any run
are claimed, and again the question is asked. At the end all claims are proved by induction
(`_induction.py`), so that a wrong guess costs time and nothing else.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from time import monotonic

import numpy as np
import numpy.typing as npt

from mase_hw.proof._features import Barred, Codes, Feature, States
from mase_hw.proof._induction import ASSERT, Claim, Relation, at, cycle_literals
from mase_hw.proof._network import FALSE, INPUT, TRUE, Network
from mase_hw.proof._transition import Transition, cone, cone_registers

CIRCUIT, FAULT = "refinement.aig", "refinement.txt"
# Values of features that were to be expected so often, and are in no run, are claimed never to be:
# beside those that must be excluded, and of these.
CERTAIN, LIKELY = 15, 30
# Claims that are made of one counterexample, of so many that it allows; bits of their features.
AT_ONCE, TRIED, MOST_BITS = 3, 24, 20
# Pairs that are looked at beside one feature more, and beside two; of these, triples that are rarer
# than this share of their pair.
PAIRS, SEEDS, TRIPLES, RARE = 1500, 300, 400, 0.2
# Times that registers are left out of a state.
ROUNDS = 8

Vectors = npt.NDArray[np.uint8]
Chosen = tuple[int, ...]


class Seen:
    """Values of features in the states of runs.

    Args:
        states: `[states, registers]` bits.
        features: of these registers.
    """

    def __init__(self, states: States, features: Sequence[Feature]) -> None:
        self.features = features
        self._count = len(states)
        self._codes: list[Codes] = [item.codes(states) for item in features]
        self._vectors: dict[tuple[int, int], Vectors] = {}

    def never(self, codes: Mapping[int, int]) -> Iterator[Chosen]:
        """Yield few features that do not take these values together, the least by chance first.

        Args:
            codes: the value of each.
        """
        places = list(codes)
        if not places:
            return
        rows = np.stack([self._vector(place, codes[place]) for place in places])
        counts = _ones(rows)
        if not counts.all():
            yield from ((places[row],) for row in np.flatnonzero(counts == 0))
            return
        pairs: dict[tuple[int, int], int] = {}
        found: list[tuple[float, Chosen]] = []
        for row in range(len(rows) - 1):
            for other, count in enumerate(_ones(rows[row + 1 :] & rows[row]), row + 1):
                pairs[row, other] = int(count)
                if not count:
                    found.append((counts[row] * counts[other] / self._count, (row, other)))
        common = sorted((pair for pair, count in pairs.items() if count), key=lambda p: pairs[p])
        for more in (self._pairs_and_one, self._triples_and_one, None):
            best = sorted(set(found), reverse=True)[:TRIED]
            if best and best[0][0] >= LIKELY:
                likely = [chosen for expected, chosen in best if expected >= LIKELY]
                yield from (self._named(places, chosen) for chosen in likely)
                return
            found = list(more(rows, counts, pairs, common)) if more else []
        yield from self._fewest(places, rows)

    @staticmethod
    def _named(places: Sequence[int], rows: Chosen) -> Chosen:
        return tuple(sorted(places[row] for row in rows))

    def _pairs_and_one(
        self,
        rows: Vectors,
        counts: npt.NDArray[np.int64],
        pairs: Mapping[tuple[int, int], int],
        common: Sequence[tuple[int, int]],
    ) -> Iterator[tuple[float, Chosen]]:
        """Yield three rows that have nothing in common, and what chance would let them have."""
        for left, right in common[:PAIRS]:
            together = _ones(rows & (rows[left] & rows[right]))
            for third in np.flatnonzero(together == 0).tolist():
                if third in (left, right):
                    continue
                one, two = (pairs[min(x, third), max(x, third)] for x in (left, right))
                if one and two:
                    both = pairs[left, right]
                    expected = max(
                        both * one / counts[left], both * two / counts[right],
                        one * two / counts[third],
                    )  # fmt: skip
                    yield float(expected), tuple(sorted((left, right, third)))

    def _triples_and_one(
        self,
        rows: Vectors,
        counts: npt.NDArray[np.int64],
        pairs: Mapping[tuple[int, int], int],
        common: Sequence[tuple[int, int]],
    ) -> Iterator[tuple[float, Chosen]]:
        """Yield four rows, likewise."""
        triples = []
        for left, right in common[:SEEDS]:
            together = _ones(rows & (rows[left] & rows[right]))
            rare = (together > 0) & (together < RARE * pairs[left, right])
            triples += [
                (int(together[third]), (left, right, third))
                for third in np.flatnonzero(rare).tolist()
                if third > right
            ]
        for count, chosen in sorted(triples)[:TRIPLES]:
            together = _ones(rows & np.bitwise_and.reduce(rows[list(chosen)]))
            for last in np.flatnonzero(together == 0).tolist():
                if last in chosen:
                    continue
                expected = 0.0
                for left, right in combinations(chosen, 2):
                    both = rows[left] & rows[right]
                    share = _ones(both & rows[last]) / max(1, pairs[left, right])
                    expected = max(expected, count * float(share))
                yield expected, tuple(sorted((*chosen, last)))

    def _fewest(self, places: Sequence[int], rows: Vectors) -> Iterator[Chosen]:
        """Yield as few features as it takes, one after the other left out."""
        kept = list(range(len(places)))
        if np.bitwise_and.reduce(rows).any():
            return
        for row in sorted(kept, key=lambda row: -self.features[places[row]].width):
            less = [other for other in kept if other != row]
            if less and not np.bitwise_and.reduce(rows[less]).any():
                kept = less
        yield self._named(places, tuple(kept))

    def _vector(self, place: int, code: int) -> Vectors:
        key = (place, code)
        if key not in self._vectors:
            self._vectors[key] = np.packbits(self._codes[place] == code)
        return self._vectors[key]

    def allowed(
        self, chosen: Chosen, codes: Mapping[int, int], alone: bool
    ) -> tuple[bool, ...] | None:
        """Return which values some features may take together; None where these are too many.

        Args:
            chosen: the features.
            codes: values that they do not take.
            alone: whether all others are allowed; else not those that only chance could miss.
        """
        sizes = [1 << self.features[place].width for place in chosen]
        total = int(np.prod(sizes))
        if total > 1 << MOST_BITS:
            return None
        scales = np.cumprod([1, *sizes[:-1]])
        own = sum(codes[place] * int(scale) for place, scale in zip(chosen, scales, strict=True))
        found = np.ones(total, bool)
        if not alone:
            seen = np.zeros(self._count, np.int64)
            for place, scale in zip(chosen, scales, strict=True):
                seen += self._codes[place] * scale
            # The first feature is the last axis.
            table = np.bincount(seen, minlength=total).reshape(sizes[::-1]).astype(float)
            expected = np.full_like(table, self._count if len(sizes) == 1 else 0)
            for one, two in combinations(range(len(sizes)), 2):
                less = table.sum((one, two), keepdims=True)
                product = table.sum(one, keepdims=True) * table.sum(two, keepdims=True)
                expected = np.maximum(expected, product / np.maximum(less, 1))
            found = ((table > 0) | (expected < CERTAIN)).reshape(-1)
        found[own] = False
        return tuple(found.tolist())


def _ones(rows: Vectors) -> npt.NDArray[np.int64]:
    counted: npt.NDArray[np.int64] = np.bitwise_count(rows).sum(axis=-1, dtype=np.int64)
    return counted


class Refinement:
    """What makes assertions hold from cycle to cycle.

    Args:
        circuit: one cycle.
        granted: claims that hold in every cycle.
        relations: what these, where they are no assertions, say.
        wanted: numbers of the assertions.
        features: of the circuit's registers.
        whole: how many of these, the first, are tried first.
        seen: the values of the same features in runs.
        first: registers that are left out first where they do not matter.
        solver: ABC.
        folder: where files are written.
    """

    def __init__(
        self,
        circuit: Transition,
        granted: Collection[Claim],
        relations: Sequence[Relation],
        wanted: Sequence[int],
        features: Sequence[Feature],
        whole: int,
        seen: Seen,
        first: Collection[int],
        solver: Path,
        folder: Path,
    ) -> None:
        self._features, self._whole, self._seen = features, whole, seen
        self._solver, self._folder = solver, folder
        self._network = network = Network()
        asserted = sorted(number for kind, number in granted if kind == ASSERT)
        said = [relations[number] for kind, number in sorted(granted) if kind != ASSERT]
        literals = [circuit.bad[number] for number in (*wanted, *asserted)]
        literals += circuit.constraints
        kept = set(cone_registers(circuit, literals))
        kept = kept.union(*(item.registers for item in (*features, *said)))
        literals += [circuit.latches[place][0] for place in kept]
        gates = 1 + circuit.inputs + len(circuit.latches)
        needed = sorted(place for place in cone(circuit, literals) if place >= gates)
        self._before = [
            TRUE if following == TRUE else network.input() if place in kept else FALSE
            for place, (following, _) in enumerate(circuit.latches)
        ]
        frame = cycle_literals(network, circuit, self._before, needed)
        self._after = [
            at(frame, following) if place in kept else FALSE
            for place, (following, _) in enumerate(circuit.latches)
        ]
        frames = [frame, cycle_literals(network, circuit, self._after, needed)]
        self._rules = network.all([at(f, rule) for f in frames for rule in circuit.constraints])
        self._base = network.all(
            [
                self._rules,
                *(at(f, circuit.bad[number]) ^ 1 for f in frames for number in asserted),
                *(item.holds(network, f) for f in (self._before, self._after) for item in said),
                *(at(frame, circuit.bad[number]) ^ 1 for number in wanted),
            ]
        )
        self._wanted = [at(frames[1], circuit.bad[number]) for number in wanted]
        order = sorted(kept, key=lambda place: (place not in first, place))
        self._order = [place for place in order if self._before[place] > TRUE]

    def found(self, limit_seconds: float) -> list[Barred] | None:
        """Return what holds together with the assertions, as far as runs show; None for no end.

        Args:
            limit_seconds: for all of it.
        """
        network, end = self._network, monotonic() + limit_seconds
        claims: dict[Barred, tuple[int, int]] = {}
        given_up: set[Barred] = set()
        while True:
            breaches = [*self._wanted, *(after ^ 1 for _, after in claims.values())]
            held = [self._base, *(before for before, _ in claims.values())]
            state = self._state(network.all([*held, network.any(breaches)]), end)
            if state is None:
                return list(claims) if monotonic() < end else None
            values = self._values(state, breaches)
            broken = next(number for number, value in enumerate(values) if value)
            more = self._more(state, breaches[broken], claims, given_up)
            for claim in more:
                claims[claim] = (
                    claim.holds(network, self._before),
                    claim.holds(network, self._after),
                )
            if not more:
                if broken < len(self._wanted):
                    return None
                wrong = list(claims)[broken - len(self._wanted)]
                del claims[wrong]
                given_up.add(wrong)

    def _more(
        self, state: Mapping[int, int], breach: int, claims: Collection[Barred],
        given_up: Collection[Barred],
    ) -> list[Barred]:  # fmt: skip
        """Return new claims that exclude a state that leads to a breach."""
        core = self._core(state, self._network.all([self._rules, breach]))
        row = np.array([[self._value(state, literal) for literal in self._before]], np.uint8)
        near = {
            place: int(item.codes(row)[0])
            for place, item in enumerate(self._features)
            if (item.registers & core if place < self._whole else item.registers <= core)
        }
        large = {place: code for place, code in near.items() if place < self._whole}
        inside = {p: code for p, code in near.items() if self._features[p].registers <= core}
        chosen = list(self._seen.never(large)) or list(self._seen.never(inside))
        found: list[Barred] = []
        for alone in (False, True):
            for places in chosen:
                allowed = self._seen.allowed(places, near, alone)
                if allowed is None:
                    continue
                claim = Barred(tuple(self._features[place] for place in places), allowed)
                if claim not in claims and claim not in given_up:
                    found.append(claim)
                if len(found) == (1 if alone else AT_ONCE):
                    return found
            if found:
                break
        return found

    @staticmethod
    def _value(state: Mapping[int, int], literal: int) -> int:
        return literal if literal <= TRUE else state.get(literal >> 1, 0)

    def _state(self, output: int, end: float) -> dict[int, int] | None:
        """Return inputs that make a literal true; None where there are none, or no time."""
        seconds = end - monotonic()
        if output == FALSE or seconds <= 0:
            return None
        network, path = self._network, self._folder / FAULT
        inputs = network.needed_inputs([output])
        text = network.text([output], {network.idle: FALSE}, inputs)
        (self._folder / CIRCUIT).write_bytes(text)
        path.unlink(missing_ok=True)
        script = f"read_aiger {CIRCUIT}; strash; bmc3 -F 1; write_cex -a {FAULT}"
        try:
            subprocess.run(
                [str(self._solver), "-c", script], cwd=self._folder, capture_output=True,
                check=False, timeout=seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
        if not path.is_file():
            return None
        rows = [line for line in path.read_text().splitlines() if re.fullmatch("[01]+", line)]
        free = [place for place in inputs if place != network.idle >> 1]
        return {place: int(bit) for place, bit in zip(free, rows[-1], strict=True)}

    def _values(self, state: Mapping[int, int], literals: Sequence[int]) -> list[int]:
        network = self._network
        values = [0] * (len(network.gates) + 1)
        for place in sorted(network.cone(literals)):
            left, right = network.gates[place - 1]
            if left == INPUT:
                values[place] = state.get(place, 0)
            else:
                values[place] = (values[left >> 1] ^ left & 1) & (values[right >> 1] ^ right & 1)
        return [values[literal >> 1] ^ literal & 1 for literal in literals]

    def _core(self, state: Mapping[int, int], goal: int) -> set[int]:
        """Return registers that make a literal true, whatever the others hold."""
        order = sorted(self._network.cone([goal]))
        inside = set(order)
        places = {register: self._before[register] >> 1 for register in self._order}
        kept = [register for register in self._order if places[register] in inside]
        dropped: list[int] = []
        for _ in range(ROUNDS):
            alone = self._sure(state, goal, order, [[*dropped, item] for item in kept], places)
            safe = [item for item, sure in zip(kept, alone, strict=True) if sure]
            trials = [[*dropped, *safe[: count + 1]] for count in range(len(safe))]
            sure = self._sure(state, goal, order, trials, places)
            count = next((number for number, good in enumerate(sure) if not good), len(sure))
            if not count:
                break
            dropped += safe[:count]
            kept = [item for item in kept if item not in set(dropped)]
        return set(kept)

    def _sure(
        self,
        state: Mapping[int, int],
        goal: int,
        order: Sequence[int],
        trials: Sequence[Sequence[int]],
        places: Mapping[int, int],
    ) -> list[bool]:
        """Return whether a literal is true where some registers hold anything, a bit a trial."""
        every = (1 << len(trials)) - 1
        unknown: dict[int, int] = {}
        for number, registers in enumerate(trials):
            for register in registers:
                place = places[register]
                unknown[place] = unknown.get(place, 0) | 1 << number
        gates = self._network.gates
        one, zero = [0] * (len(gates) + 1), [0] * (len(gates) + 1)
        zero[0] = every
        for place in order:
            left, right = gates[place - 1]
            if left == INPUT:
                known = every & ~unknown.get(place, 0)
                (one if state.get(place, 0) else zero)[place] = known
                continue
            high, low = (zero, one) if left & 1 else (one, zero)
            other_high, other_low = (zero, one) if right & 1 else (one, zero)
            one[place] = high[left >> 1] & other_high[right >> 1]
            zero[place] = low[left >> 1] | other_low[right >> 1]
        found = (zero if goal & 1 else one)[goal >> 1]
        return [bool(found >> number & 1) for number in range(len(trials))]
