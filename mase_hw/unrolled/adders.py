"""Sums of shifted numbers without sign, shared by rows of a constant matrix.

A sum is `[~]first << s + [~]second << t`, of numbers from 0: what is subtracted is complemented,
which adds a constant, so that no sign is ever extended. An adder then costs one look-up table for
each bit in which its operands overlap. A row of the matrix becomes digits in canonical signed form
(Reitwiesner, "Binary Arithmetic", 1960), pairs of digits that occur repeatedly become sums of their
own (Hartley, "Subexpression Sharing in Filters Using Canonic Signed Digit Multipliers", 1996), and
what is left is added in the order in which it arrives.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heapify, heappop, heappush
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mase_hw._native import build_cpp, load_library
from mase_hw.errors import EmissionError

# Bits of an adder that a level of depth is worth when terms are shared.
SLOWNESS = 0.25


@dataclass(frozen=True)
class Digit:
    """A number times a power of two, with its sign."""

    number: int
    shift: int
    sign: int


@dataclass(frozen=True)
class Operand:
    """A shifted number of a sum, complemented or not."""

    number: int
    shift: int
    complemented: bool = False


@dataclass
class Adders:
    """Numbers from 0, leaves first come, and sums of two.

    Attributes:
        highs: largest value of each number.
        levels: adders that lie before each number, after the registers that its leaves wait in.
        sums: operands of each sum, by its number.
        offsets: what complemented operands add to each number, beside its leaves with factors.
    """

    highs: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    sums: dict[int, tuple[Operand, Operand]] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)
    _numbers: dict[tuple[Operand, Operand], int] = field(default_factory=dict, repr=False)

    def leaf(self, high: int, level: int) -> int:
        """Return a new number that something else computes."""
        self.highs.append(high)
        self.levels.append(level)
        self.offsets.append(0)
        return len(self.highs) - 1

    def width(self, number: int) -> int:
        """Return the bits of a number."""
        return max(1, self.highs[number].bit_length())

    def add(self, first: Digit, second: Digit) -> Digit:
        """Return the sum of two digits: a number, with the sign that it has."""
        base = min(first.shift, second.shift)
        one, two = (Operand(item.number, item.shift - base) for item in (first, second))
        sign = first.sign
        if first.sign != second.sign:
            # Bits that the other one has none beside are inverted in a table of their own.
            if self._alone(one, two) < self._alone(two, one):
                one, sign = Operand(one.number, one.shift, True), second.sign
            else:
                two = Operand(two.number, two.shift, True)
        pair = (one, two) if (one.number, one.shift) <= (two.number, two.shift) else (two, one)
        number = self._numbers.get(pair)
        if number is None:
            high = sum(self._most(item) << item.shift for item in pair)
            level = 1 + max(self.levels[item.number] for item in pair)
            number = self._numbers[pair] = self.leaf(high, level)
            self.sums[number] = pair
            self.offsets[number] = sum(self._offset(item) << item.shift for item in pair)
        return Digit(number, base, sign)

    def _most(self, operand: Operand) -> int:
        if operand.complemented:
            return (1 << self.width(operand.number)) - 1
        return self.highs[operand.number]

    def _offset(self, operand: Operand) -> int:
        offset = self.offsets[operand.number]
        return self._most(operand) - offset if operand.complemented else offset

    def _alone(self, operand: Operand, other: Operand) -> int:
        """Return how many bits of an operand lie where the other has none."""
        return self.width(operand.number) - self.overlap(operand, other)

    def overlap(self, first: Operand, second: Operand) -> int:
        """Return the bits in which two operands overlap."""
        end = min(item.shift + self.width(item.number) for item in (first, second))
        return max(0, end - max(first.shift, second.shift))

    def tables(self, number: int) -> int:
        """Return the look-up tables of a sum: overlapping bits, and inverted ones that are not."""
        first, second = self.sums[number]
        inverted = sum(
            self._alone(one, two)
            for one, two in ((first, second), (second, first))
            if one.complemented
        )
        return self.overlap(first, second) + inverted

    def total(self, digits: Sequence[Digit]) -> Digit:
        """Return the sum of digits, of one sign after the other: the earliest first."""
        parts = [[digit for digit in digits if digit.sign == sign] for sign in (1, -1)]
        sums = [self._of_one_sign(part) for part in parts if part]
        return self.add(*sums) if len(sums) > 1 else sums[0]

    def _of_one_sign(self, digits: Sequence[Digit]) -> Digit:
        heap = [(*self._order(digit), place, digit) for place, digit in enumerate(digits)]
        heapify(heap)
        place = len(heap)
        while len(heap) > 1:
            made = self.add(heappop(heap)[-1], heappop(heap)[-1])
            heappush(heap, (*self._order(made), place, made))
            place += 1
        return heap[0][-1]

    def _order(self, digit: Digit) -> tuple[int, int]:
        return self.levels[digit.number], digit.shift

    def rows(self, rows: Sequence[Mapping[int, int]]) -> list[Digit]:
        """Return a digit for each row, a sum of leaves with factors, up to a constant."""
        leaves = sorted({leaf for row in rows for leaf in row})
        place = {leaf: number for number, leaf in enumerate(leaves)}
        digits = [
            (number, place[leaf], shift, sign)
            for number, row in enumerate(rows)
            for leaf, factor in row.items()
            for shift, sign in signed_digits(factor)
        ]
        columns = [Digit(leaf, 0, 1) for leaf in leaves]
        sums, left = _shared(
            [self.highs[leaf] for leaf in leaves],
            [self.levels[leaf] for leaf in leaves],
            digits,
            len(rows),
        )
        for first, second, shift, other, sign in sums.tolist():
            one, two = columns[first], columns[second]
            columns.append(
                self.add(
                    Digit(one.number, one.shift + shift, one.sign),
                    Digit(two.number, two.shift + other, two.sign * sign),
                )
            )
        terms: list[list[Digit]] = [[] for _ in rows]
        for row, column, shift, sign in left.tolist():
            item = columns[column]
            terms[row].append(Digit(item.number, item.shift + shift, item.sign * sign))
        return [self.total(row) for row in terms]

    def linear(self) -> list[dict[int, int]]:
        """Return each number as a sum of leaves with factors; the constant has the key -1.

        This reads the sums alone, not how they came to be, so that what they were to be can be
        compared with it.
        """
        found: list[dict[int, int]] = []
        for number in range(len(self.highs)):
            if number not in self.sums:
                found.append({number: 1, -1: 0})
                continue
            total = {-1: 0}
            for operand in self.sums[number]:
                if not 0 <= operand.number < number:
                    raise EmissionError(f"sum {number} is computed before its operand")
                factor = (-1 if operand.complemented else 1) << operand.shift
                if operand.complemented:
                    total[-1] += ((1 << self.width(operand.number)) - 1) << operand.shift
                for leaf, weight in found[operand.number].items():
                    total[leaf] = total.get(leaf, 0) + factor * weight
            found.append({leaf: weight for leaf, weight in total.items() if weight or leaf == -1})
        return found


def signed_digits(factor: int) -> Iterator[tuple[int, int]]:
    """Yield the digits of a factor in canonical signed form: powers of two and their signs."""
    shift = 0
    while factor:
        if factor & 1:
            sign = 2 - (factor & 3)
            yield shift, sign
            factor -= sign
        factor >>= 1
        shift += 1


def _shared(
    highs: Sequence[int], levels: Sequence[int], digits: Sequence[tuple[int, ...]], rows: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return sums `[n, 5]` of pairs that occur repeatedly, and digits `[m, 4]` with them."""
    count, width = len(digits), max((high.bit_length() for high in highs), default=0)
    table = np.array(digits, np.int32).reshape(-1, 4)
    most = width + int(table[:, 2].max(initial=0)) + rows.bit_length() + count.bit_length()
    if most > 62:
        # Shared sums are wider than their rows: no code is shared where they might overflow.
        return np.zeros((0, 5), np.int32), table
    sums, left = np.zeros((count, 5), np.int32), np.zeros((count, 4), np.int32)
    columns, order = np.array(highs, np.uint64), np.array(levels, np.int32)
    length = ctypes.c_int32()
    made = _library().share(
        len(highs),
        _pointer(columns),
        _pointer(order),
        count,
        _pointer(table),
        rows,
        ctypes.c_double(SLOWNESS),
        _pointer(sums),
        _pointer(left),
        ctypes.byref(length),
    )
    return sums[:made], left[: length.value]


def _pointer(array: npt.NDArray[np.generic]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


@cache
def _library() -> ctypes.CDLL:
    return load_library(build_cpp(Path(__file__).with_name("shared_terms.cpp")))
