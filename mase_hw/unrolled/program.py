"""Integer programs: sums of atoms with constant factors, and what is not linear between them.

A form is `constant + sum(factor * atom)`. An atom is an element of an input, or a function of forms
that is not linear: a shift that loses bits, a bound, a comparison, a table. Every form and atom has
its exact range over independent atoms, from the codes that enter and the actual constants.

Forms and atoms are numbered; equal ones have one number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
import numpy.typing as npt

from mase_hw.errors import UnsupportedError

Integers = npt.NDArray[np.int64]
Terms = tuple[tuple[int, int], ...]
# Bits of a number, at most.
MOST_BITS = 62
# Numbers that a quotient by a constant is compared for.
MOST_DIVIDENDS = 1 << 22
# Numbers that a table takes.
MOST_ENTRIES = 1 << 12


class Kind(Enum):
    """Functions of forms."""

    INPUT = auto()  # element `values[1]` of input `values[0]`
    FLOOR = auto()  # first >> values[0]
    EVEN = auto()  # first / 2**values[0], to nearest even
    LOW = auto()  # first modulo 2**values[0]
    CLAMP = auto()  # (first >> values[2], or to nearest even with values[3]) in values[0..1]
    POSITIVE = auto()  # 1 where first >= 0
    ZERO = auto()  # 1 where first == 0
    CHOOSE = auto()  # second where first is 1, else third
    LOGIC = auto()  # bit first + 2 * second of values[0], of two bits
    TABLE = auto()  # values[first - the least value of first]


@dataclass(frozen=True)
class Form:
    """A constant, and factors of atoms in ascending order."""

    constant: int
    terms: Terms = ()


@dataclass(frozen=True)
class Atom:
    """A function of forms, by their numbers, or an element of an input."""

    kind: Kind
    forms: tuple[int, ...]
    values: tuple[int, ...] = ()


@dataclass
class Program:
    """A program under construction.

    Attributes:
        atoms: in the order in which they can be computed.
        ranges: least and largest value of each atom.
        forms: every form that was asked for.
        outputs: forms of the elements of each result.
        owner: the node of a graph whose atoms come.
        owners: the node of each atom.
        places: the node of each form.
    """

    atoms: list[Atom] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)
    outputs: list[list[int]] = field(default_factory=list)
    owner: str = ""
    owners: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    _form_numbers: dict[Form, int] = field(default_factory=dict, repr=False)
    _atom_numbers: dict[Atom, int] = field(default_factory=dict, repr=False)
    _bounds: list[tuple[int, int]] = field(default_factory=list, repr=False)

    def form(self, constant: int, terms: Terms = ()) -> int:
        """Return the number of a form."""
        form = Form(constant, terms)
        number = self._form_numbers.get(form)
        if number is None:
            low = high = constant
            for atom, factor in terms:
                ends = self.ranges[atom]
                low += factor * ends[factor < 0]
                high += factor * ends[factor > 0]
            if max(-low, high).bit_length() > MOST_BITS:
                raise UnsupportedError(f"its sums take more than {MOST_BITS} bits")
            number = self._form_numbers[form] = len(self.forms)
            self.forms.append(form)
            self._bounds.append((low, high))
            self.places.append(self.owner)
        return number

    def range(self, form: int) -> tuple[int, int]:
        """Return the least and the largest value of a form."""
        return self._bounds[form]

    def value(self, form: int) -> int | None:
        """Return the value of a form that has one only."""
        low, high = self._bounds[form]
        return low if low == high else None

    def add(self, first: int, second: int, factor: int = 1) -> int:
        """Return `first + factor * second`."""
        one, two = self.forms[first], self.forms[second]
        constant = one.constant + factor * two.constant
        if not two.terms or not factor:
            return self.form(constant, one.terms)
        terms = dict(one.terms)
        for atom, weight in two.terms:
            terms[atom] = terms.get(atom, 0) + factor * weight
        return self.form(constant, tuple(sorted(item for item in terms.items() if item[1])))

    def weighted(self, forms: Sequence[int], factors: Sequence[int], constant: int = 0) -> int:
        """Return a sum of forms with factors."""
        terms: dict[int, int] = {}
        for number, factor in zip(forms, factors, strict=True):
            if factor:
                form = self.forms[number]
                constant += factor * form.constant
                for atom, weight in form.terms:
                    terms[atom] = terms.get(atom, 0) + factor * weight
        return self.form(constant, tuple(sorted(item for item in terms.items() if item[1])))

    def scale(self, form: int, factor: int) -> int:
        """Return `factor * form`."""
        return self.weighted((form,), (factor,))

    def atom(self, kind: Kind, forms: tuple[int, ...], *values: int) -> int:
        """Return the form that is one atom, whose range is that of its function."""
        atom = Atom(kind, forms, values)
        number = self._atom_numbers.get(atom)
        if number is None:
            number = self._atom_numbers[atom] = len(self.atoms)
            self.atoms.append(atom)
            self.owners.append(self.owner)
            self.ranges.append(self._range(atom))
        low, high = self.ranges[number]
        return self.form(low) if low == high else self.form(0, ((number, 1),))

    def input(self, port: int, element: int, low: int, high: int) -> int:
        """Return an element of an input, whose codes are from `low` to `high`."""
        self._inputs[port, element] = low, high
        return self.atom(Kind.INPUT, (), port, element)

    _inputs: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict, repr=False)

    def single(self, form: int) -> Atom | None:
        """Return the atom that a form is, with a constant or without; None for other forms."""
        terms = self.forms[form].terms
        return self.atoms[terms[0][0]] if len(terms) == 1 and terms[0][1] == 1 else None

    def _range(self, atom: Atom) -> tuple[int, int]:
        ends = [self._bounds[form] for form in atom.forms]
        match atom.kind:
            case Kind.INPUT:
                return self._inputs[atom.values[0], atom.values[1]]
            case Kind.FLOOR | Kind.EVEN | Kind.CLAMP:
                low, high = (
                    FUNCTIONS[atom.kind]([np.asarray(end)], atom.values) for end in ends[0]
                )
                return int(low), int(high)
            case Kind.LOW:
                return 0, (1 << atom.values[0]) - 1
            case Kind.CHOOSE:
                return min(ends[1][0], ends[2][0]), max(ends[1][1], ends[2][1])
            case Kind.TABLE:
                return min(atom.values), max(atom.values)
        return 0, 1

    # Functions, with what is simpler where a range or another form says so.

    def floor(self, form: int, shift: int) -> int:
        """Return `form >> shift`."""
        low, high = self.range(form)
        if low >> shift == high >> shift:
            return self.form(low >> shift)
        whole = self.forms[form]
        if all(not factor & ((1 << shift) - 1) for _, factor in whole.terms):
            terms = tuple((atom, factor >> shift) for atom, factor in whole.terms)
            return self.form(whole.constant >> shift, terms)
        atom = self.single(form)
        if atom is not None and atom.kind is Kind.FLOOR:
            inner = atom.values[0]
            before = self.add(atom.forms[0], self.form(whole.constant << inner))
            return self.floor(before, inner + shift)
        return self.atom(Kind.FLOOR, (form,), shift)

    def low_bits(self, form: int, bits: int) -> int:
        """Return `form` modulo `2**bits`."""
        low, high = self.range(form)
        if low >> bits == high >> bits:
            return self.add(form, self.form(-(low >> bits << bits)))
        whole, mask = self.forms[form], (1 << bits) - 1
        terms = tuple((atom, factor) for atom, factor in whole.terms if factor & mask)
        reduced = self.form(whole.constant & mask, terms)
        if reduced != form:
            return self.low_bits(reduced, bits)
        return self.atom(Kind.LOW, (form,), bits)

    def clamp(self, form: int, low: int, high: int) -> int:
        """Return `min(max(form, low), high)`; where these cross, `high`."""
        low = min(low, high)
        ends = self.range(form)
        if ends[0] >= low and ends[1] <= high:
            return form
        if ends[1] <= low or ends[0] >= high:
            return self.form(low if ends[1] <= low else high)
        atom, constant = self.single(form), self.forms[form].constant
        if atom is None:
            # Bounds that never act are the ends of the range.
            return self.atom(Kind.CLAMP, (form,), max(low, ends[0]), min(high, ends[1]), 0, 0)
        if constant:
            shifted = self.add(form, self.form(-constant))
            inside = self.clamp(shifted, low - constant, high - constant)
            return self.add(inside, self.form(constant))
        bounds = (max(low, ends[0]), min(high, ends[1]))
        match atom.kind:
            case Kind.CLAMP:
                bounds = (max(atom.values[0], low), min(atom.values[1], high))
                return self.atom(Kind.CLAMP, atom.forms, *bounds, *atom.values[2:])
            case Kind.FLOOR | Kind.EVEN:
                even = int(atom.kind is Kind.EVEN)
                return self.atom(Kind.CLAMP, atom.forms, *bounds, atom.values[0], even)
        return self.atom(Kind.CLAMP, (form,), *bounds, 0, 0)

    def positive(self, form: int) -> int:
        """Return 1 where a form is 0 or more, else 0."""
        low, high = self.range(form)
        if low >= 0 or high < 0:
            return self.form(int(low >= 0))
        if (low, high) == (-1, 0):
            return self.add(form, self.form(1))
        return self.atom(Kind.POSITIVE, (form,))

    def zero(self, form: int) -> int:
        """Return 1 where a form is 0."""
        low, high = self.range(form)
        if low > 0 or high < 0 or low == high:
            return self.form(int(low == high == 0))
        if high - low == 1:
            return self.add(self.form(high if not low else -low), form, -1 if not low else 1)
        return self.atom(Kind.ZERO, (form,))

    def choose(self, condition: int, first: int, second: int) -> int:
        """Return `first` where a bit is 1, else `second`."""
        value = self.value(condition)
        if value is not None or first == second:
            return first if value or first == second else second
        one, two = self.value(first), self.value(second)
        if one is not None and two is not None:
            return self.add(self.form(two), condition, one - two)
        return self.atom(Kind.CHOOSE, (condition, first, second))

    def logic(self, first: int, second: int, truth: int) -> int:
        """Return a function of two bits.

        Args:
            first: a form of the values 0 and 1.
            second: another.
            truth: its value for `first + 2 * second` in the bit of that number.
        """
        for form, other, near, far in ((first, second, 1, 2), (second, first, 2, 1)):
            value = self.value(form)
            if value is not None:
                offset = near if value else 0
                off, on = truth >> offset & 1, truth >> (offset + far) & 1
                return self.add(self.form(off), other, on - off)
        if first == second:
            return self.add(self.form(truth & 1), first, (truth >> 3 & 1) - (truth & 1))
        return self.atom(Kind.LOGIC, (first, second), truth)

    def multiply(self, first: int, second: int) -> int:
        """Return the product of two forms."""
        for one, two in ((first, second), (second, first)):
            value = self.value(one)
            if value is not None:
                return self.scale(two, value)
        for one, two in ((first, second), (second, first)):
            if self.range(one) == (0, 1):
                return self.choose(one, two, self.form(0))
        # The bits of the narrower one choose multiples of the other.
        one, two = sorted((first, second), key=lambda form: np.ptp(self.range(form)))
        low, high = self.range(one)
        natural, terms = self.add(one, self.form(-low)), [self.scale(two, low)]
        for bit in range((high - low).bit_length()):
            chooses = self.low_bits(self.floor(natural, bit), 1)
            terms.append(self.scale(self.choose(chooses, two, self.form(0)), 1 << bit))
        return self.weighted(terms, [1] * len(terms))

    def quotient(self, form: int, divisor: int) -> int:
        """Return `floor(form / divisor)`: a product and a shift, compared for every value."""
        shift = (divisor & -divisor).bit_length() - 1
        form, divisor = self.floor(form, shift), divisor >> shift
        if divisor == 1:
            return form
        begin = self.range(form)[0] // divisor
        form = self.add(form, self.form(-begin * divisor))
        low, high = self.range(form)
        if high - low >= MOST_DIVIDENDS:
            raise UnsupportedError(
                f"a quotient by {divisor} of {high - low + 1} numbers: give its operand fewer bits"
            )
        numbers = np.arange(low, high + 1)
        bits = max(1, (high - low).bit_length())
        for more in range(bits + divisor.bit_length() + 1):
            factor = -(-(1 << more) // divisor)
            if np.array_equal(numbers * factor >> more, numbers // divisor):
                return self.add(self.floor(self.scale(form, factor), more), self.form(begin))
        raise AssertionError("a multiplier of as many bits as dividend and divisor is exact")

    def table(self, form: int, function: Callable[[Integers], Integers]) -> int:
        """Return a function of a form, tabulated over its range."""
        low, high = self.range(form)
        if high - low >= MOST_ENTRIES:
            raise UnsupportedError(
                f"a function of {high - low + 1} numbers is no table: give its operand "
                f"{MOST_ENTRIES.bit_length() - 1} bits or fewer"
            )
        values = [int(value) for value in function(np.arange(low, high + 1))]
        steps = {later - value for value, later in itertools.pairwise(values)}
        if len(steps) <= 1:
            step = steps.pop() if steps else 0
            return self.add(self.form(values[0] - step * low), form, step)
        atom, constant = self.single(form), self.forms[form].constant
        if atom is not None and atom.kind in (Kind.LOW, Kind.TABLE, Kind.CLAMP, Kind.FLOOR):
            ends = self.range(atom.forms[0])
            if ends[1] - ends[0] < MOST_ENTRIES and atom.kind is not Kind.FLOOR:
                numbers = np.arange(ends[0], ends[1] + 1)
                inner = [*atom.values] if atom.kind is not Kind.TABLE else None
                inside = (
                    np.asarray(atom.values)
                    if inner is None
                    else FUNCTIONS[atom.kind]([numbers], atom.values)
                )
                composed = np.asarray(values)[inside + constant - low]
                return self.table(atom.forms[0], lambda _: composed)
        return self.atom(Kind.TABLE, (form,), *values)

    def evaluate(self, inputs: Sequence[Integers]) -> list[Integers]:
        """Return the results of inferences.

        Args:
            inputs: codes `[inferences, elements]` of each input.

        Returns:
            Codes `[inferences, elements]` of each result.
        """
        values: list[Integers] = []

        def of_form(number: int) -> Integers:
            form = self.forms[number]
            total = np.full(len(inputs[0]), form.constant, np.int64)
            for atom, factor in form.terms:
                total += factor * values[atom]
            return total

        for atom in self.atoms:
            if atom.kind is Kind.INPUT:
                values.append(inputs[atom.values[0]][:, atom.values[1]])
                continue
            operands = [of_form(form) for form in atom.forms]
            if atom.kind is Kind.TABLE:
                low = self.range(atom.forms[0])[0]
                values.append(np.asarray(atom.values, np.int64)[operands[0] - low])
            else:
                values.append(FUNCTIONS[atom.kind](operands, atom.values))
        return [np.stack([of_form(form) for form in result], 1) for result in self.outputs]


def _even(operand: Integers, shift: int) -> Integers:
    """Return a quotient by a power of two, to nearest and of two to the even one."""
    raised = operand + (1 << shift >> 1)
    tie = (raised & ((1 << shift) - 1)) == 0
    result: Integers = (raised >> shift) & ~tie.astype(np.int64)
    return result


def _clamped(operand: Integers, low: int, high: int, shift: int, even: int) -> Integers:
    """Return a quotient by a power of two between bounds."""
    rounded = _even(operand, shift) if even else operand >> shift
    return np.minimum(np.maximum(rounded, low), high)


FUNCTIONS: dict[Kind, Callable[[Sequence[Integers], tuple[int, ...]], Integers]] = {
    Kind.FLOOR: lambda given, values: given[0] >> values[0],
    Kind.EVEN: lambda given, values: _even(given[0], values[0]),
    Kind.LOW: lambda given, values: given[0] & ((1 << values[0]) - 1),
    Kind.CLAMP: lambda given, values: _clamped(given[0], *values),
    Kind.POSITIVE: lambda given, values: (given[0] >= 0).astype(np.int64),
    Kind.ZERO: lambda given, values: (given[0] == 0).astype(np.int64),
    Kind.CHOOSE: lambda given, values: np.where(given[0] == 1, given[1], given[2]),
    Kind.LOGIC: lambda given, values: (values[0] >> (given[0] + 2 * given[1])) & 1,
}
