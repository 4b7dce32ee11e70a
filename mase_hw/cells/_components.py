"""Components of cells: registers, adders, counters, multiplexers and the like, with their widths.

A cell counts components and knows no device. `mase_hw.hardware.estimate` maps them to LUT, FF, DSP
and block RAM, in one place for all cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Words(Protocol):
    """What holds the words of a memory; they are computed when asked for."""

    width_bits: int

    @property
    def words(self) -> Sequence[int]:
        """The bit patterns, in address order."""


@dataclass(frozen=True)
class Component:
    """Something of which cells are made; a subclass is one kind."""


@dataclass(frozen=True)
class Register(Component):
    """Flip-flops in `stages` rows of `bits`.

    Attributes:
        bits: of a row.
        stages: rows that nothing reads but the next, and that nothing resets or holds.
    """

    bits: int
    stages: int = 1


@dataclass(frozen=True)
class Gates(Component):
    """Logic of a handshake or a flag.

    Attributes:
        outputs: functions of a few bits.
        levels: tables of four inputs that lie one behind another in them.
    """

    outputs: int = 1
    levels: int = 1


@dataclass(frozen=True)
class Logic(Component):
    """Logic whose tables and registers are counted one by one.

    Attributes:
        tables: look-up tables, shift registers among them.
        registers: flip-flops.
        carries: blocks of a carry chain.
    """

    tables: int
    registers: int
    carries: int = 0


@dataclass(frozen=True)
class Counter(Component):
    """A counter that begins again after its last number, and says when it is there.

    Attributes:
        bits: of the number; 0 for a single number.
        wraps: whether it begins again by itself, after a power of two.
    """

    bits: int
    wraps: bool = False


@dataclass(frozen=True)
class Level(Component):
    """A count of what is there, up and down by one, and whether there is any.

    Attributes:
        bits: of the count.
    """

    bits: int


@dataclass(frozen=True)
class Pointer(Component):
    """A counter that wraps by itself.

    Attributes:
        bits: of the number.
    """

    bits: int


@dataclass(frozen=True)
class Adder(Component):
    """A sum or a difference of two numbers.

    Attributes:
        bits: of the result.
        gated: whether one of them may be zero or another instead, chosen by a bit.
        full: whether every bit of both varies, as in a tree of sums.
    """

    bits: int
    gated: bool = False
    full: bool = False


@dataclass(frozen=True)
class Offset(Component):
    """A number plus a constant or a carry.

    Attributes:
        bits: of the result.
        ones: bits that are set in the constant.
    """

    bits: int
    ones: int = 0


@dataclass(frozen=True)
class Negation(Component):
    """A number or its negative, as a bit says.

    Attributes:
        bits: of the number.
        chosen: whether a bit chooses; else always the negative.
    """

    bits: int
    chosen: bool = True


@dataclass(frozen=True)
class Compare(Component):
    """Whether one number is larger than another.

    Attributes:
        bits: of the numbers.
        constant: whether one of them is.
    """

    bits: int
    constant: bool = False


@dataclass(frozen=True)
class Mux(Component):
    """One of some words.

    Attributes:
        ways: number of words.
        bits: of a word.
    """

    ways: int
    bits: int


@dataclass(frozen=True)
class Fold(Component):
    """One bit from many: whether any, or all, of them are set.

    Attributes:
        bits: that enter.
    """

    bits: int


@dataclass(frozen=True)
class Rounding(Component):
    """What is shifted out of a number, as a carry for the rest.

    Attributes:
        bits: of the rest.
        lost: bits shifted out.
    """

    bits: int
    lost: int


@dataclass(frozen=True)
class Saturation(Component):
    """A number between the ends of a range of powers of two.

    Attributes:
        bits: of the result.
        above: bits that must repeat its sign.
    """

    bits: int
    above: int


@dataclass(frozen=True)
class Zeros(Component):
    """How many groups of bits on top of a number are zero.

    Attributes:
        bits: that are looked at.
        ways: number of answers.
    """

    bits: int
    ways: int


@dataclass(frozen=True)
class Shifter(Component):
    """A shift by multiples of a distance.

    Attributes:
        bits: of the number.
        ways: number of distances.
        step: the distance.
        filled: whether a sign fills what becomes free; else zeros.
        empty: bits at the end of the number that are zero.
        left: bits of the number where it is shifted to the left into more of them; else 0.
        inner: bits of the number where more of them enter than leave, from its end; else 0.
    """

    bits: int
    ways: int
    step: int = 1
    filled: bool = False
    empty: int = 0
    left: int = 0
    inner: int = 0


@dataclass(frozen=True)
class Sticky(Component):
    """Whether a shift by one of many distances loses a one.

    Attributes:
        bits: of what is shifted.
    """

    bits: int


@dataclass(frozen=True)
class Product(Component):
    """A product of two signed numbers.

    Attributes:
        left: bits of the one.
        right: bits of the other.
        constant: the other's value where it is known; 0 for a variable.
    """

    left: int
    right: int
    constant: int = 0


@dataclass(frozen=True, eq=False)
class Table(Component):
    """Constant words behind an address; no table equals another, so that no words are compared.

    Attributes:
        words: number of words.
        bits: of a word.
        image: the words; None where they are not known.
        block: whether it must lie in block memory.
        logic: whether it must lie in look-up tables.
        stages: registers behind it, the first of which may be its own.
        readers: how many read it.
        irregular: whether its words follow no rule, as weights do and those of a function do not.
    """

    words: int
    bits: int
    image: Words | None = None
    block: bool = False
    stages: int = 1
    readers: int = 1
    logic: bool = False
    irregular: bool = False


@dataclass(frozen=True)
class Memory(Component):
    """A memory with a port that writes.

    Attributes:
        words: number of words.
        bits: of a word.
        readers: ports that read.
        stages: registers behind a port that reads, the first of which may be its own.
        small: whether registers may hold the words where they are few.
    """

    words: int
    bits: int
    readers: int = 1
    stages: int = 0
    small: bool = False


@dataclass(frozen=True, eq=False)
class Components:
    """Components with their numbers, in the order in which they were said.

    Examples:
        >>> lane = Components.of(Register(8), (Register(1, 3), 2))
        >>> (lane * 4).counts[Register(1, 3)]
        8
    """

    items: tuple[tuple[Component, int], ...]

    @classmethod
    def of(cls, *items: Component | tuple[Component, int] | Components) -> Components:
        """Return the sum of components, of components with a number, and of sums."""
        counted: list[tuple[Component, int]] = []
        for item in items:
            if isinstance(item, Components):
                counted += item.items
            elif isinstance(item, tuple):
                if item[1]:
                    counted.append(item)
            else:
                counted.append((item, 1))
        return cls(tuple(counted))

    @property
    def counts(self) -> dict[Component, int]:
        """The number of each component."""
        numbers: dict[Component, int] = {}
        for component, number in self.items:
            numbers[component] = numbers.get(component, 0) + number
        return numbers

    def __eq__(self, other: object) -> bool:
        """True if both are made of the same components."""
        return isinstance(other, Components) and self.counts == other.counts

    def __hash__(self) -> int:
        """Return a hash of what is counted."""
        return hash(frozenset(self.counts.items()))

    def __add__(self, other: Components) -> Components:
        return Components(self.items + other.items)

    def __mul__(self, number: int) -> Components:
        """Return `number` times these components."""
        if not number:
            return NOTHING
        return Components(tuple([(component, count * number) for component, count in self.items]))


NOTHING = Components(())
