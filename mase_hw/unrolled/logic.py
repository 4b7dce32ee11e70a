"""Integer programs as pipelined logic: what is computed in which stage, in how many bits.

A stage holds `levels` adders one behind another, and its results are registered where a later one
reads them. Atoms are numbers from 0 above a base, so that nothing is extended with a sign. A bound
is the set and the reset of a register: it takes no tables but one for its condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mase_hw.errors import EmissionError
from mase_hw.unrolled.adders import Adders, Digit
from mase_hw.unrolled.program import Atom, Kind, Program

DEFAULT_LEVELS = 2
# Inputs of a look-up table.
TABLE_INPUTS = 6
# Registers one behind another that become a shift register.
SHIFT_REGISTER = 3


@dataclass
class Signal:
    """A vector of bits without sign.

    Attributes:
        name: in the module.
        width: bits.
        level: adders before it since the inputs, counting those that stages leave room for.
        stage: in which it can be read first.
        text: expression, in which `{0}`, `{1}`, ... are operands; empty for a register of a bound.
        operands: signals that it is computed of, in its stage.
        tables: look-up tables that it takes.
        owner: name of the graph's node that it belongs to.
        spare: low bits that nothing reads.
    """

    name: str
    width: int
    level: int
    stage: int
    text: str
    operands: tuple[Signal, ...] = ()
    tables: float = 0.0
    owner: str = ""
    spare: int = 0
    last: int = -1

    @property
    def delays(self) -> int:
        """Registers in which its value waits for those that read it in later stages."""
        return max(0, self.last - self.stage)

    def at(self, stage: int) -> str:
        """Return its name in a stage."""
        if stage < self.stage:
            raise EmissionError(f"{self.name} is read in stage {stage}, before it is computed")
        self.last = max(self.last, stage)
        return f"{self.name}_q{stage - self.stage}" if stage > self.stage else self.name


@dataclass
class Register(Signal):
    """A register with a condition in which it takes a constant.

    Attributes:
        condition: expression of the operands before the register.
        bound: the constant.
    """

    condition: str = ""
    bound: int = 0


@dataclass
class Logic:
    """The logic of a program.

    Attributes:
        program: what it computes.
        levels: adders of a stage.
        adders: sums of the numbers that atoms are.
        signals: in the order in which they are computed.
        digits: the number, and the constant beside it, that each form is.
        results: signals of the elements of each result.
    """

    program: Program
    levels: int = DEFAULT_LEVELS
    adders: Adders = field(default_factory=Adders)
    signals: list[Signal] = field(default_factory=list)
    digits: dict[int, tuple[Digit | None, int]] = field(default_factory=dict)
    results: list[list[Signal]] = field(default_factory=list)
    leaves: dict[int, int] = field(default_factory=dict)
    bases: dict[int, int] = field(default_factory=dict)
    _numbers: dict[int, Signal] = field(default_factory=dict, repr=False)
    _values: dict[tuple[int, int, int], Signal] = field(default_factory=dict, repr=False)
    _owner: str = ""

    @classmethod
    def of(cls, program: Program, widths: Sequence[int], levels: int = DEFAULT_LEVELS) -> Logic:
        """Return the logic of a program.

        Args:
            program: with its results.
            widths: bits of an element of each result.
            levels: adders of a stage, from 1.
        """
        logic = cls(program, levels)
        for ready in _ranks(program):
            for atom in ready.atoms:
                logic._owner = program.owners[atom]
                signal, base = logic._atom(program.atoms[atom], atom)
                high = program.ranges[atom][1] - base
                number = logic.adders.leaf(high, signal.level)
                logic.leaves[atom], logic.bases[atom] = number, base
                logic._numbers[number] = signal
            logic._owner = program.places[max(ready.forms)] if ready.forms else ""
            logic._sums(ready.forms)
        for forms, width in zip(program.outputs, widths, strict=True):
            logic._owner = program.places[forms[-1]] if forms else ""
            logic.results.append([logic._value(form, 0, width) for form in forms])
        for signal in logic.signals:
            for operand in signal.operands:
                operand.at(signal.stage - isinstance(signal, Register))
        for signal in (item for row in logic.results for item in row):
            signal.at(logic.stages)
        return logic

    @property
    def stages(self) -> int:
        """Registers from the inputs to the results."""
        results = [item for row in self.results for item in row]
        return max(item.stage + (not isinstance(item, Register)) for item in results)

    @property
    def costs(self) -> dict[str, tuple[int, int]]:
        """Look-up tables, shift registers among them, and flip-flops, by node."""
        tables: dict[str, float] = {}
        registers: dict[str, int] = {}
        for item in self.signals:
            long = item.delays >= SHIFT_REGISTER
            kept = isinstance(item, Register) + (0 if long else item.delays)
            tables[item.owner] = tables.get(item.owner, 0) + item.tables + long * item.width
            registers[item.owner] = registers.get(item.owner, 0) + kept * item.width
        return {owner: (round(count), registers[owner]) for owner, count in tables.items()}

    def _new(
        self, kind: str, width: int, level: int, text: str, *operands: Signal, tables: float = 0.0
    ) -> Signal:
        stage = max((item.stage for item in operands), default=0)
        stage = max(stage, -(-level // self.levels) - 1)
        name = f"{kind}{len(self.signals)}"
        signal = Signal(name, width, level, stage, text, operands, tables, self._owner)
        self.signals.append(signal)
        return signal

    def _sums(self, forms: Sequence[int]) -> None:
        """Add the sums of forms whose atoms are there."""
        rows = [
            {self.leaves[atom]: factor for atom, factor in self.program.forms[form].terms}
            for form in forms
        ]
        known = len(self.adders.highs)
        digits = self.adders.rows([row for row in rows if row])
        for number in range(known, len(self.adders.highs)):
            self._sum(number)
        given = iter(digits)
        for form, row in zip(forms, rows, strict=True):
            whole = self.program.forms[form]
            constant = whole.constant
            constant += sum(factor * self.bases[atom] for atom, factor in whole.terms)
            digit = next(given) if row else None
            if digit is not None:
                constant -= digit.sign * self.adders.offsets[digit.number] << digit.shift
            self.digits[form] = digit, constant

    def _sum(self, number: int) -> None:
        # A carry chain takes its first operand as it is, and inverts the second in its tables.
        pair = sorted(self.adders.sums[number], key=lambda item: item.complemented)
        width, operands = self.adders.width(number), [self._numbers[item.number] for item in pair]
        # Below the overlap the bits of one operand are the sum's.
        first = max(item.shift for item in pair)
        parts, below = [], ""
        for place, (operand, signal) in enumerate(zip(pair, operands, strict=True)):
            sign = "~" if operand.complemented else ""
            above = width - operand.shift - signal.width
            skipped = first - operand.shift
            bits = [f"{above}'d0"] * (above > 0)
            if skipped >= signal.width:
                # It lies below the other one as a whole.
                bits = [f"{width - first}'d0"]
                gap = skipped - signal.width
                below = ", ".join([f"{gap}'d0"] * (gap > 0) + [f"{sign}{{{place}}}"])
            elif skipped:
                bits.append(f"{sign}{{{place}}}[{signal.width - 1}:{skipped}]")
                below = f"{sign}{{{place}}}[{skipped - 1}:0]"
            else:
                bits.append(f"{sign}{{{place}}}")
            parts.append(f"{{{{{', '.join(bits)}}}}}" if len(bits) > 1 else bits[0])
        zero = f"{width - first}'d0"
        text = " + ".join(part for part in parts if part != zero) or zero
        if below:
            total = self._new(
                "a",
                width - first,
                self.adders.levels[number],
                text,
                *operands,
                tables=self.adders.tables(number),
            )
            text = f"{{{{{{2}}, {below}}}}}"
            operands.append(total)
        self._numbers[number] = self._new(
            "n",
            width,
            self.adders.levels[number],
            text,
            *operands,
            tables=0 if below else self.adders.tables(number),
        )

    def _value(self, form: int, offset: int, width: int) -> Signal:
        """Return the last bits of a form less an offset."""
        key = form, offset, width
        if key not in self._values:
            self._values[key] = self._shifted(form, offset, width)
        return self._values[key]

    def _shifted(self, form: int, offset: int, width: int) -> Signal:
        digit, constant = self.digits[form]
        constant = (constant - offset) % (1 << width)
        if digit is None:
            return self._new("c", width, 0, f"{width}'d{constant}")
        number = self._numbers[digit.number]
        shifted = f"{width}'({{0}})" if number.width != width else "{0}"
        if digit.shift:
            shifted = f"({shifted} << {digit.shift})"
        if digit.sign > 0 and not constant:
            if number.width == width and not digit.shift:
                return number
            return self._new("v", width, number.level, shifted, number)
        sign = "+" if digit.sign > 0 else "-"
        inverted = (constant if digit.sign > 0 else ~constant) % (1 << width)
        tables = (inverted >> digit.shift & ((1 << number.width) - 1)).bit_count()
        text = f"{width}'d{constant} {sign} {shifted}"
        return self._new("v", width, number.level + 1, text, number, tables=tables)

    def _natural(self, form: int, base: int) -> Signal:
        """Return a form above a base that it never falls below."""
        return self._value(form, base, max(1, (self.program.range(form)[1] - base).bit_length()))

    def _signed(self, form: int, offset: int) -> tuple[Signal, int, int]:
        """Return a form less an offset in two's complement, and its range."""
        low, high = (end - offset for end in self.program.range(form))
        width = max(low.bit_length() if low >= 0 else (-low - 1).bit_length(), high.bit_length())
        return self._value(form, offset, width + 1), low, high

    def _bits(self, signal: Signal, first: int, count: int, text: str = "{0}") -> Signal:
        """Return some bits of a signal, the lowest first."""
        if first == 0 and count == signal.width:
            return signal
        signal.spare = max(signal.spare, first)
        bits = f"{text}[{first + count - 1}:{first}]" if count > 1 else f"{text}[{first}]"
        return self._new("b", count, signal.level, bits, signal)

    def _atom(self, atom: Atom, number: int) -> tuple[Signal, int]:
        """Return the signal of an atom and the base above which it counts."""
        low, high = self.program.ranges[number]
        width = max(1, (high - low).bit_length())
        match atom.kind:
            case Kind.INPUT:
                return self._input(atom, low, high)
            case Kind.FLOOR:
                whole = self._natural(atom.forms[0], low << atom.values[0])
                return self._bits(whole, atom.values[0], whole.width - atom.values[0]), low
            case Kind.LOW:
                return self._value(atom.forms[0], 0, atom.values[0]), 0
            case Kind.EVEN:
                base = low & ~1
                rounded, _, _ = self._rounded(atom.forms[0], base, atom.values[0], even=True)
                return self._bits(rounded, 0, max(1, (high - base).bit_length())), base
            case Kind.CLAMP:
                return self._clamp(atom)
            case Kind.POSITIVE:
                whole, _, _ = self._signed(atom.forms[0], 0)
                whole.spare = whole.width - 1
                text = f"~{{0}}[{whole.width - 1}]" if whole.width > 1 else "~{0}"
                return self._new("s", 1, whole.level, text, whole, tables=1), 0
            case Kind.ZERO:
                return self._zero(atom.forms[0]), 0
            case Kind.CHOOSE:
                condition = self._value(atom.forms[0], 0, 1)
                pair = [self._value(form, low, width) for form in atom.forms[1:]]
                level = 1 + max(item.level for item in (condition, *pair))
                text = "{0} ? {1} : {2}"
                return self._new("m", width, level, text, condition, *pair, tables=width), low
            case Kind.LOGIC:
                one, two = (self._value(form, 0, 1) for form in atom.forms)
                text = f"1'(4'd{atom.values[0]} >> {{{{{{1}}, {{0}}}}}})"
                level = 1 + max(one.level, two.level)
                return self._new("g", 1, level, text, one, two, tables=1), 0
            case Kind.TABLE:
                return self._table(atom, low, width)
        raise EmissionError(f"{atom.kind} has no logic")

    def _input(self, atom: Atom, low: int, high: int) -> tuple[Signal, int]:
        port, element = atom.values
        bits = max((high if high > 0 else 0).bit_length(), (-low - 1).bit_length() if low else 0)
        width = bits + (low < 0)
        text, tables = f"data_in_{port}[{element}]", 0
        if low < 0:
            # The first bit of a signed code counts down.
            text, tables = f"{text} ^ {width}'d{1 << bits}", 1
        return self._new("x", width, 0, text, tables=tables), -(1 << bits) if low < 0 else 0

    def _rounded(self, form: int, base: int, shift: int, *, even: bool) -> tuple[Signal, int, int]:
        """Return `form >> shift`, or to nearest even, less a base, signed, and its range."""
        half = 1 << shift >> 1 if even else 0
        whole, low, high = self._signed(form, (base << shift) - half)
        low, high = low >> shift, high >> shift
        count = whole.width - shift
        if not even:
            return self._bits(whole, shift, count), low, high
        # Half way between, the last bit is cleared.
        last = f"{{0}}[{shift}] & |{{0}}[{shift - 1}:0]"
        text = f"{{{{{{0}}[{whole.width - 1}:{shift + 1}], {last}}}}}" if count > 1 else last
        tables = 1 + -(-(shift - 1) // (TABLE_INPUTS - 1)) * (shift > TABLE_INPUTS - 1)
        return self._new("h", count, whole.level + 1, text, whole, tables=tables), low, high

    def _clamp(self, atom: Atom) -> tuple[Signal, int]:
        """Return a bound: registers that a condition sets or resets."""
        low, high, shift, even = atom.values
        base = low & ~1 if even else low
        signal, least, most = self._rounded(atom.forms[0], base, shift, even=bool(even))
        floor, ceiling = low - base, high - base
        width, top = max(1, ceiling.bit_length()), signal.width - 1
        sign = f"{{0}}[{top}]" if top else "{0}"
        below = None
        if least < floor:
            condition, tables = sign, 0
            if floor:
                condition, tables = f"{sign} | ~|{{0}}", 1 + top // TABLE_INPUTS
            if most > ceiling:
                below = self._new("u", 1, signal.level, condition, signal, tables=tables)
        bits = f"{{0}}[{width - 1}:0]" if width > 1 else "{0}[0]"
        bits = bits if signal.width > 1 else "{0}"
        bounded = signal
        if most > ceiling:
            if ceiling == (1 << width) - 1:
                above = f"~{sign} & |{{0}}[{top - 1}:{width}]"
                tables = -(-(top - width + 1) // TABLE_INPUTS)
            else:
                above = f"$signed({{0}}) > {signal.width}'sd{ceiling}"
                tables = top
            bounded = self._register(width, bits, above, ceiling, signal, tables=tables)
        if least < floor:
            if bounded is signal:
                return self._register(width, bits, condition, floor, signal, tables=tables), base
            assert below is not None
            return self._register(width, "{0}", "{1}", floor, bounded, below), base
        return bounded, base

    def _register(
        self,
        width: int,
        text: str,
        condition: str,
        bound: int,
        *operands: Signal,
        tables: float = 0.0,
    ) -> Signal:
        stage = 1 + max(item.stage for item in operands)
        name = f"r{len(self.signals)}"
        signal = Register(
            name,
            width,
            stage * self.levels,
            stage,
            text,
            operands,
            tables,
            self._owner,
            condition=condition,
            bound=bound,
        )
        self.signals.append(signal)
        return signal

    def _zero(self, form: int) -> Signal:
        digit, constant = self.digits[form]
        assert digit is not None
        number = self._numbers[digit.number]
        value, rest = divmod(-digit.sign * constant, 1 << digit.shift)
        if rest or not 0 <= value < 1 << number.width:
            return self._new("e", 1, number.level, "1'b0")
        text = f"{{0}} == {number.width}'d{value}"
        tables = 1 + (number.width > TABLE_INPUTS) * -(-number.width // TABLE_INPUTS)
        return self._new("e", 1, number.level + 1, text, number, tables=tables)

    def _table(self, atom: Atom, base: int, width: int) -> tuple[Signal, int]:
        """Return a table: for every bit a constant, in which the operand is a place."""
        digit, constant = self.digits[atom.forms[0]]
        assert digit is not None
        number = self._numbers[digit.number]
        low = self.program.range(atom.forms[0])[0]
        words = []
        for code in range(1 << number.width):
            place = constant + (digit.sign * code << digit.shift) - low
            inside = min(max(place, 0), len(atom.values) - 1)
            words.append(atom.values[inside] - base)
        size = 1 << number.width
        columns = [
            sum((word >> bit & 1) << place for place, word in enumerate(words))
            for bit in reversed(range(width))
        ]
        bits = ", ".join(f"1'({size}'h{column:x} >> {{0}})" for column in columns)
        level, each = number.level + 1, 1 << max(0, number.width - TABLE_INPUTS)
        tables = each * len(set(columns))
        return self._new("t", width, level, f"{{{{{bits}}}}}", number, tables=tables), base


@dataclass
class _Ready:
    """Atoms that can be computed at a time, and the forms of these and earlier ones."""

    atoms: list[int] = field(default_factory=list)
    forms: list[int] = field(default_factory=list)


def _ranks(program: Program) -> Iterator[_Ready]:
    """Yield what is needed for the results, in the order in which it can be computed."""
    open_ = [form for forms in program.outputs for form in forms]
    forms, atoms = set(open_), set[int]()
    while open_:
        for atom, _ in program.forms[open_.pop()].terms:
            if atom not in atoms:
                atoms.add(atom)
                new = set(program.atoms[atom].forms) - forms
                forms |= new
                open_ += new
    rank_of_atom: dict[int, int] = {}
    ranks: dict[int, _Ready] = {}
    for atom in sorted(atoms):
        rank = 1 + max(
            (_rank(program, form, rank_of_atom) for form in program.atoms[atom].forms), default=-1
        )
        rank_of_atom[atom] = rank
        ranks.setdefault(rank, _Ready()).atoms.append(atom)
    for form in sorted(forms):
        rank = max(0, _rank(program, form, rank_of_atom))
        ranks.setdefault(rank, _Ready()).forms.append(form)
    for rank in sorted(ranks):
        yield ranks[rank]


def _rank(program: Program, form: int, ranks: dict[int, int]) -> int:
    return max((ranks[atom] for atom, _ in program.forms[form].terms), default=-1)
