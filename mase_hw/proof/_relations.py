"""Relations between registers, guessed from the states that random runs come to.

Two kinds suffice for what counts beats: sums of bits with small factors that are always 0, such as
credits that are left and results on their way; and pairs and triples of small registers that do
not take all values. `_induction.py` keeps those that are invariants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from mase_hw.proof._network import FALSE, TRUE, Network

States = npt.NDArray[np.uint8]
PRIME = (1 << 31) - 1
# Largest factor of a bit, and most bits in a sum.
MOST_FACTOR, MOST_BITS = 64, 80
# Bits of a register that is looked at as a whole, and of two.
REGISTER_BITS, PAIR_BITS = 7, 9
# Bits of a register that is looked at beside a single bit.
BESIDE_BITS = 4
MOST_PAIRS = 1500
# Bits of three registers, and how many of them are looked at.
TRIPLE_BITS, MOST_TRIPLES = 5, 400
# What the attribute `mase_register` of a register says: a bit for each stage of a pipeline; for how
# long the next result, or a beat, has waited; which beat of an inference is next.
STAGES, WAIT, PLACE = "stages", "wait", "place"
# Bits of a place whose values count one by one.
PLACE_BITS = 5


@dataclass(frozen=True)
class Term:
    """Some bits with certain values: 1 where they have them, else 0.

    Attributes:
        bits: numbers of registers, the first is the lowest bit.
        value: of all.
    """

    bits: tuple[int, ...]
    value: int = 1

    def holds(self, network: Network, literals: Sequence[int]) -> int:
        """Return the literal that says so, for literals of the registers."""
        return network.all(
            [literals[bit] ^ (self.value >> place & 1 ^ 1) for place, bit in enumerate(self.bits)]
        )


@dataclass(frozen=True)
class Sum:
    """A sum of terms with factors that is 0.

    Attributes:
        constant: what is added.
        factors: of each term.
        stages: most bits of one register that have the same factor, such as those that tell the
            stages of a pipeline.
    """

    constant: int
    factors: tuple[tuple[Term, int], ...]
    stages: int = 1

    @cached_property
    def registers(self) -> frozenset[int]:
        """Numbers of the registers in the relation."""
        return frozenset(bit for term, _ in self.factors for bit in term.bits)

    def moved(self, numbers: Sequence[int]) -> Sum:
        """Return the same of other numbers of registers."""
        return Sum(
            self.constant,
            tuple(
                (Term(tuple(numbers[bit] for bit in term.bits), term.value), factor)
                for term, factor in self.factors
            ),
            self.stages,
        )

    def holds(self, network: Network, literals: Sequence[int]) -> int:
        """Return the literal that says so, for literals of the registers."""
        # Bit by bit in one order, so that sums of almost the same bits are almost the same gates.
        ordered = sorted((term.holds(network, literals), factor) for term, factor in self.factors)
        most, least = [0], [0]
        for _, factor in reversed(ordered):
            most.append(most[-1] + max(factor, 0))
            least.append(least[-1] + min(factor, 0))
        # What is left of the terms must add up to each of these.
        layers: list[set[int]] = [{-self.constant}]
        for place, (_, factor) in enumerate(ordered):
            rest = len(ordered) - place - 1
            layers.append(
                {
                    total
                    for before in layers[-1]
                    for total in (before, before - factor)
                    if least[rest] <= total <= most[rest]
                }
            )
        nodes = dict.fromkeys(layers.pop(), TRUE)
        for (literal, factor), layer in zip(reversed(ordered), reversed(layers), strict=True):
            nodes = {
                total: network.choose(
                    literal, nodes.get(total - factor, FALSE), nodes.get(total, FALSE)
                )
                for total in layer
            }
        return nodes.get(-self.constant, FALSE)


@dataclass(frozen=True)
class Table:
    """Which values some bits take together.

    Attributes:
        bits: numbers of registers, the first is the lowest bit.
        values: for each value, whether it occurs.
    """

    bits: tuple[int, ...]
    values: tuple[bool, ...]

    @cached_property
    def registers(self) -> frozenset[int]:
        """Numbers of the registers in the relation."""
        return frozenset(self.bits)

    def moved(self, numbers: Sequence[int]) -> Table:
        """Return the same of other numbers of registers."""
        return Table(tuple(numbers[bit] for bit in self.bits), self.values)

    def holds(self, network: Network, literals: Sequence[int]) -> int:
        """Return the literal that says so, for literals of the registers."""
        level = [TRUE if value else FALSE for value in self.values]
        for place in self.bits:
            bit = literals[place]
            level = [
                network.choose(bit, high, low)
                for low, high in zip(level[::2], level[1::2], strict=True)
            ]
        return level[0]


@dataclass(frozen=True)
class Implication:
    """A register that has a certain value only where one of some bits is set.

    Attributes:
        when: the register and the value.
        bits: numbers of registers.
    """

    when: Term
    bits: tuple[int, ...]

    @cached_property
    def registers(self) -> frozenset[int]:
        """Numbers of the registers in the relation."""
        return frozenset((*self.when.bits, *self.bits))

    def moved(self, numbers: Sequence[int]) -> Implication:
        """Return the same of other numbers of registers."""
        when = Term(tuple(numbers[bit] for bit in self.when.bits), self.when.value)
        return Implication(when, tuple(numbers[bit] for bit in self.bits))

    def holds(self, network: Network, literals: Sequence[int]) -> int:
        """Return the literal that says so, for literals of the registers."""
        return network.any(
            [self.when.holds(network, literals) ^ 1, *(literals[bit] for bit in self.bits)]
        )


Relation = Sum | Table | Implication


def relations(
    states: States, groups: Mapping[str, Sequence[int]], roles: Mapping[str, str]
) -> list[Relation]:
    """Relations that hold in all states.

    Args:
        states: `[states, registers]` bits.
        groups: numbers of the bits of each register, the lowest first.
        roles: what registers are: `stages`, `wait` or `place`.
    """
    if not len(states):
        return []
    lines = [tuple(bits) for name, bits in groups.items() if roles.get(name) == STAGES]
    waits = [tuple(bits) for name, bits in groups.items() if roles.get(name) == WAIT]
    whole = {
        name
        for name, bits in groups.items()
        if roles.get(name) == PLACE and len(bits) <= PLACE_BITS
    }
    single = [bits[0] for bits in groups.values() if len(bits) == 1]
    return [
        *_sums(states, groups, whole),
        *_tables(states, groups),
        *(item for bits in waits for item in _delays(states, bits, lines, single)),
    ]


def _delays(
    states: States, bits: Sequence[int], lines: Sequence[tuple[int, ...]], single: Sequence[int]
) -> Iterator[Implication]:
    """Yield how far in a pipeline something must be when the next result has waited so long.

    Each cycle moves what is under way by a stage, up to what waits behind the last one.
    """
    codes = _codes(states, bits)
    waits = np.unique(codes)[1:].tolist()
    some = {wait: states[codes == wait].astype(bool) for wait in waits}
    if not waits:
        return
    combined = [combo for count in range(3) for combo in combinations(single, count)]
    for line in lines:
        # By how many stages what is under way may be behind the wait; the tightest help.
        by_distance: dict[int, list[dict[int, tuple[int, ...]]]] = {}
        for end in combined:
            if all(some[wait][:, end].any(axis=1).all() for wait in waits):
                continue
            for behind in range(-1, len(line)):
                kept = {wait: (*line[max(0, wait - behind) :], *end) for wait in waits}
                if all(some[wait][:, kept[wait]].any(axis=1).all() for wait in waits):
                    by_distance.setdefault(behind, []).append(kept)
                    break
        for kept in by_distance[min(by_distance)] if by_distance else ():
            for wait, seen in kept.items():
                yield Implication(Term(tuple(bits), wait), seen)


def _codes(states: States, bits: Sequence[int]) -> npt.NDArray[np.int64]:
    codes: npt.NDArray[np.int64] = states[:, list(bits)].astype(np.int64) @ (
        1 << np.arange(len(bits))
    )
    return codes


def _tables(states: States, groups: Mapping[str, Sequence[int]]) -> list[Table]:
    """Return the registers, and pairs of registers, that do not take all values."""
    parts: list[tuple[int, ...]] = []
    for bits in groups.values():
        if len(bits) <= REGISTER_BITS:
            parts.append(tuple(bits))
    taken = [_codes(states, bits) for bits in parts]
    counts = [
        np.bincount(codes, minlength=1 << len(bits)) > 0
        for bits, codes in zip(parts, taken, strict=True)
    ]
    singles = [
        Table(bits, tuple(seen.tolist()))
        for bits, seen in zip(parts, counts, strict=True)
        if not seen.all()
    ]
    several = []
    together: dict[tuple[int, ...], npt.NDArray[np.bool_]] = {}
    for count, most in ((2, PAIR_BITS), (3, TRIPLE_BITS)):
        for chosen in combinations(range(len(parts)), count):
            sizes = [len(parts[item]) for item in chosen]
            if sum(sizes) > most or (min(sizes) == 1 and max(sizes) > BESIDE_BITS):
                continue
            codes, shift = np.zeros(len(states), np.int64), 0
            for item, size in zip(chosen, sizes, strict=True):
                codes |= taken[item] << shift
                shift += size
            seen = np.bincount(codes, minlength=1 << shift) > 0
            expected = _expected(chosen, sizes, counts, together)
            if not np.array_equal(seen, expected):
                together[chosen] = seen
                bits = tuple(bit for item in chosen for bit in parts[item])
                several.append((count, shift, Table(bits, tuple(seen.tolist()))))
    several.sort(key=lambda item: item[:2])
    pairs = [table for count, _, table in several if count == 2]
    triples = [table for count, _, table in several if count == 3]
    return [*singles, *pairs[:MOST_PAIRS], *triples[:MOST_TRIPLES]]


def _expected(
    chosen: tuple[int, ...],
    sizes: Sequence[int],
    counts: Sequence[npt.NDArray[np.bool_]],
    together: Mapping[tuple[int, ...], npt.NDArray[np.bool_]],
) -> npt.NDArray[np.bool_]:
    """Return the values of registers together that those of fewer of them allow."""
    # The first is the last axis.
    shape = [1 << size for size in reversed(sizes)]
    allowed = np.ones(shape, bool)
    for count in range(1, len(chosen)):
        for places in combinations(range(len(chosen)), count):
            names = tuple(chosen[place] for place in places)
            seen = counts[names[0]] if count == 1 else together.get(names)
            if seen is not None:
                axes = [1] * len(chosen)
                for place in places:
                    axes[len(chosen) - 1 - place] = 1 << sizes[place]
                allowed = allowed & seen.reshape(axes)
    return allowed.reshape(-1)


def _sums(states: States, groups: Mapping[str, Sequence[int]], whole: Collection[str]) -> list[Sum]:
    """Return a basis of the sums that are 0 in all states, if its factors are small.

    Each value of a register in `whole` counts by itself, and each bit of others.
    """
    terms: list[Term] = []
    owners: list[str] = []
    columns = [np.ones(len(states), np.int64)]
    for name, bits in groups.items():
        if name not in whole:
            terms += [Term((bit,)) for bit in bits]
            owners += [name] * len(bits)
            columns += [states[:, bit].astype(np.int64) for bit in bits]
            continue
        codes = _codes(states, bits)
        for value in np.unique(codes)[1:].tolist():
            terms.append(Term(tuple(bits), value))
            owners.append("")
            columns.append((codes == value).astype(np.int64))
    matrix = np.stack(columns, axis=1)
    chance = np.random.default_rng(0)
    rows = matrix[chance.permutation(len(matrix))[: 3 * matrix.shape[1]]]
    while True:
        basis = _null_space(rows)
        if not len(basis):
            return []
        wrong = [np.flatnonzero(_product(matrix, vector))[:4] for vector in basis]
        more = np.unique(np.concatenate(wrong))
        if not more.size:
            break
        rows = np.concatenate([rows, matrix[more]])
    sums = []
    for vector in _sparse(basis, _spoken_of(terms, states.shape[1])):
        small = _small(vector)
        if small is not None and 0 < np.count_nonzero(small[1:]) <= MOST_BITS:
            places = np.flatnonzero(small[1:]).tolist()
            alike = Counter((owners[p], int(small[p + 1])) for p in places if owners[p])
            factors = tuple((terms[p], int(small[p + 1])) for p in places)
            sums.append(Sum(int(small[0]), factors, max(alike.values(), default=1)))
    return sums


def _spoken_of(terms: Sequence[Term], count: int) -> npt.NDArray[np.int64]:
    """Return of which registers the constant and each term speak: `[1 + terms, registers]`."""
    matrix = np.zeros((1 + len(terms), count), np.int64)
    for place, term in enumerate(terms, 1):
        matrix[place, list(term.bits)] = 1
    return matrix


def _product(matrix: npt.NDArray[np.int64], vector: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the product modulo the prime; entries of the matrix are bits."""
    return (matrix @ vector) % PRIME


def _null_space(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a basis of the vectors that are orthogonal to all rows, modulo a prime."""
    work, count = rows.copy() % PRIME, rows.shape[1]
    pivots: list[int] = []
    for column in range(count):
        top = len(pivots)
        places = np.flatnonzero(work[top:, column])
        if not places.size:
            continue
        place = top + int(places[0])
        work[[top, place]] = work[[place, top]]
        work[top] = work[top] * pow(int(work[top, column]), -1, PRIME) % PRIME
        others = work[:, column].copy()
        others[top] = 0
        touched = np.flatnonzero(others)
        work[touched] = (work[touched] - others[touched, None] * work[top]) % PRIME
        pivots.append(column)
    free = [column for column in range(count) if column not in set(pivots)]
    basis = np.zeros((len(free), count), np.int64)
    for number, column in enumerate(free):
        basis[number, column] = 1
        basis[number, pivots] = -work[: len(pivots), column] % PRIME
    return basis


def _sparse(basis: npt.NDArray[np.int64], bits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a basis of the same vectors modulo the prime, each of few registers.

    What is said of many registers hides in several of them otherwise, each time with something that
    few registers say; each is hard to prove.

    Args:
        basis: `[vectors, columns]`.
        bits: `[columns, registers]`, 1 where a column speaks of a register.
    """

    def cost(vector: npt.NDArray[np.int64]) -> tuple[int, int]:
        used = vector != 0
        return int(np.count_nonzero(used @ bits)), int(np.count_nonzero(used))

    vectors = basis.copy()
    better = True
    while better:
        better = False
        for place, vector in enumerate(vectors):
            for other in np.flatnonzero(vectors @ (vector != 0) != 0):
                both = (vector != 0) & (vectors[other] != 0)
                if other == place or not both.any():
                    continue
                ratios = vector[both] * _inverses(vectors[other][both]) % PRIME
                values, counts = np.unique(ratios, return_counts=True)
                less = (vector - values[counts.argmax()] * vectors[other]) % PRIME
                if cost(less) < cost(vector):
                    vectors[place] = vector = less
                    better = True
    return vectors


def _inverses(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.array([pow(value, -1, PRIME) for value in values.tolist()], np.int64)


def _small(vector: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """Return a multiple modulo the prime with small factors, None where there is none."""
    for scale in range(1, MOST_FACTOR + 1):
        scaled = vector * scale % PRIME
        scaled = np.where(scaled > PRIME // 2, scaled - PRIME, scaled)
        if np.abs(scaled).max() <= 4 * MOST_FACTOR:
            return scaled
    return None
