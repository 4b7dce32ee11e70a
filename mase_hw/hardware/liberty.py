"""Libraries of standard cells in Liberty: areas, functions, capacitances and energies.

Of the language are read groups, attributes and their values; see "Liberty User Guides and Reference
Manual Suite", version 2017.06, and section 2.1 of its volume 1 for the grammar of functions. An
energy is in units of the library's capacitance times volts squared, as there in section 8.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mase_hw.errors import SynthesisError

# Inputs of a truth table of 64 bits.
MOST_INPUTS = 6
PREFIXES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}
# The input patterns of a truth table: bit `i` of mask `k` is bit `k` of `i`.
MASKS = tuple(
    sum(1 << row for row in range(64) if row >> place & 1) for place in range(MOST_INPUTS)
)
ALL = (1 << 64) - 1
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}():;,]|[^\s{}():;,"]+', re.S)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\\\r?\n", re.S)
_FUNCTION_TOKEN = re.compile(r"\w+(?:\[\d+\])?|[!'*&+|^()]")


@dataclass
class Group:
    """A group: `kind(names) { attributes and groups }`."""

    kind: str
    names: tuple[str, ...]
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)

    def of(self, *kinds: str) -> Iterator[Group]:
        """Yield the groups of some kinds."""
        return (group for group in self.groups if group.kind in kinds)

    def text(self, name: str, default: str = "") -> str:
        """Return the first value of an attribute."""
        return self.values.get(name, (default,))[0]

    def number(self, name: str, default: float = 0.0) -> float:
        """Return an attribute that is a number."""
        return float(self.text(name, str(default)))


@dataclass(frozen=True)
class Table:
    """Energies of a transition by the capacitance at the output, at the middle of the slopes."""

    loads: npt.NDArray[np.float64]
    energies: npt.NDArray[np.float64]

    def at(self, load: float) -> float:
        """Return the energy at a load, linear between the table's points."""
        return float(np.interp(load, self.loads, self.energies))


@dataclass(frozen=True)
class Pin:
    """A pin of a cell.

    Attributes:
        is_output: whether it drives.
        capacitance: of an input, in the library's unit.
        function: of an output, of the input pins and the names of the state.
        tables: energies of a transition, one for each condition and direction.
    """

    is_output: bool
    capacitance: float
    function: str
    tables: tuple[Table, ...]

    def energy(self, load: float) -> float:
        """Return the mean energy of a transition, in the library's unit."""
        return sum(table.at(load) for table in self.tables) / max(1, len(self.tables))


@dataclass(frozen=True)
class StandardCell:
    """A cell.

    Attributes:
        name: in the library.
        area: in the library's unit.
        pins: by name.
        state: names of the state and its inverse; empty for a gate.
        next_state: function of the state at the next edge, with clear and preset.
        clock: function of the clock.
    """

    name: str
    area: float
    pins: Mapping[str, Pin]
    state: tuple[str, ...] = ()
    next_state: str = ""
    clock: str = ""

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the pins that are not driven."""
        return tuple(name for name, pin in self.pins.items() if not pin.is_output)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the pins that are driven."""
        return tuple(name for name, pin in self.pins.items() if pin.is_output)


@dataclass(frozen=True)
class Library:
    """A library.

    Attributes:
        name: as it calls itself.
        voltage: volts of its supply.
        capacitance_unit: farads.
        voltage_unit: volts.
        cells: by name.
    """

    name: str
    voltage: float
    capacitance_unit: float
    voltage_unit: float
    cells: Mapping[str, StandardCell]

    @classmethod
    def load(cls, path: Path) -> Library:
        """Read a file.

        Raises:
            SynthesisError: when it cannot be read, is no Liberty, or holds no cells with areas.
        """
        try:
            text = path.read_text(errors="replace")
        except OSError as error:
            raise SynthesisError(f"{path} cannot be read: {error.strerror}") from error
        try:
            return _library(parse(text))
        except KeyError as error:
            told = f"a group lacks {error}"
        except (ValueError, RecursionError) as error:
            told = str(error)
        raise SynthesisError(f"{path} is no library of cells in Liberty: {told}")


def parse(text: str) -> Group:
    """Return the outermost group of a file.

    Raises:
        ValueError: for what is no Liberty.
    """
    tokens = _TOKEN.findall(_COMMENT.sub(" ", text))
    if tokens[:2] != ["library", "("]:
        raise ValueError("it does not begin with library(NAME)")
    outside = Group("", ())
    try:
        _statement(tokens, 0, outside)
    except IndexError as error:
        raise ValueError("it ends inside a group") from error
    return outside.groups[0]


def _statement(tokens: Sequence[str], place: int, around: Group) -> int:
    """Read an attribute or a group into the one around it; return the place behind it."""
    name = tokens[place]
    if tokens[place + 1] == ":":
        end = tokens.index(";", place)
        around.values[name] = (" ".join(tokens[place + 2 : end]).strip('"'),)
        return end + 1
    if tokens[place + 1] != "(":
        raise ValueError(f"{tokens[place + 1]!r} stands behind {name!r}")
    end = tokens.index(")", place)
    given = tuple(item.strip('"') for item in tokens[place + 2 : end] if item != ",")
    if tokens[end + 1 : end + 2] != ["{"]:
        around.values[name] = given
        return end + 1 + (tokens[end + 1 : end + 2] == [";"])
    group, place = Group(name, given), end + 2
    while tokens[place] != "}":
        place = place + 1 if tokens[place] == ";" else _statement(tokens, place, group)
    around.groups.append(group)
    return place + 1


def _library(group: Group) -> Library:
    templates = {item.names[0]: item for item in group.groups if item.kind.endswith("template")}
    cells = {
        item.names[0]: _cell(item, templates)
        for item in group.of("cell")
        if item.number("area") > 0 and not any(item.of("latch"))
    }
    if not any(cell.state for cell in cells.values()):
        raise ValueError("it has no flip-flop with an area")
    number, unit = group.values["capacitive_load_unit"]
    volts = re.fullmatch(r"([\d.]+)\s*(m?)V", group.text("voltage_unit", "1V"))
    if volts is None:
        raise ValueError(f"voltage_unit is {group.text('voltage_unit')!r}")
    scale = float(volts[1]) * PREFIXES[volts[2]]
    return Library(
        group.names[0],
        group.number("nom_voltage") * scale,
        float(number) * PREFIXES[unit.lower().removesuffix("f")],
        scale,
        cells,
    )


def _cell(group: Group, templates: Mapping[str, Group]) -> StandardCell:
    pins = {name: _pin(item, templates) for item in group.of("pin") for name in item.names}
    for item in group.of("ff"):
        clear, preset = item.text("clear", "0"), item.text("preset", "0")
        following = f"!({clear}) & (({preset}) | ({item.text('next_state')}))"
        area = group.number("area")
        return StandardCell(
            group.names[0], area, pins, item.names, following, item.text("clocked_on")
        )
    return StandardCell(group.names[0], group.number("area"), pins)


def _pin(group: Group, templates: Mapping[str, Group]) -> Pin:
    kinds = ("power", "rise_power", "fall_power")
    tables = (
        _table(item, templates) for power in group.of("internal_power") for item in power.of(*kinds)
    )
    is_output = group.text("direction") == "output"
    return Pin(is_output, group.number("capacitance"), group.text("function"), tuple(tables))


def _table(group: Group, templates: Mapping[str, Group]) -> Table:
    """Return the energies over the load: of the other axis, the middle."""
    values = np.array([_numbers(row) for row in group.values["values"]])
    template = templates.get(group.names[0]) if group.names else None
    if template is None or values.size == 1:
        return Table(np.zeros(1), np.array([float(values.mean())]))
    axes = [
        _numbers((group.values.get(f"index_{place}") or template.values[f"index_{place}"])[0])
        for place in range(1, 4)
        if f"variable_{place}" in template.values
    ]
    energies = values.reshape([len(axis) for axis in axes])
    loads = np.zeros(1)
    for place in reversed(range(len(axes))):
        if template.text(f"variable_{place + 1}").endswith("output_net_capacitance"):
            loads = np.array(axes[place])
        else:
            energies = energies.take(len(axes[place]) // 2, axis=place)
    return Table(loads, energies.reshape(-1))


def _numbers(text: str) -> list[float]:
    return [float(item) for item in re.split(r"[,\s]+", text.strip()) if item]


def truth_table(function: str, names: Sequence[str]) -> int:
    """Return the truth table of a function: bit `i` is its value where name `k` is bit `k` of `i`.

    Raises:
        SynthesisError: for more names than a table has, and for what is no function of them.
    """
    if len(names) > MOST_INPUTS:
        raise SynthesisError(
            f"a function of {', '.join(names)} has {len(names)} inputs; at most {MOST_INPUTS} are "
            "evaluated"
        )
    tokens = _FUNCTION_TOKEN.findall(function)
    known = {**dict(zip(names, MASKS, strict=False)), "0": 0, "1": ALL}
    try:
        value, place = _either(tokens, 0, known)
    except (KeyError, IndexError) as error:
        raise SynthesisError(f"{function!r} is no function of {', '.join(names)}") from error
    if place != len(tokens):
        raise SynthesisError(f"{function!r} is no function of {', '.join(names)}")
    return value


def _either(tokens: Sequence[str], place: int, known: Mapping[str, int]) -> tuple[int, int]:
    value, place = _both(tokens, place, known)
    while tokens[place : place + 1] in (["+"], ["|"]):
        other, place = _both(tokens, place + 1, known)
        value |= other
    return value, place


def _both(tokens: Sequence[str], place: int, known: Mapping[str, int]) -> tuple[int, int]:
    """Return a product; its factors may stand side by side."""
    value, place = _differs(tokens, place, known)
    while place < len(tokens) and tokens[place] not in "+|)":
        other, place = _differs(tokens, place + (tokens[place] in "*&"), known)
        value &= other
    return value, place


def _differs(tokens: Sequence[str], place: int, known: Mapping[str, int]) -> tuple[int, int]:
    value, place = _inverted(tokens, place, known)
    while tokens[place : place + 1] == ["^"]:
        other, place = _inverted(tokens, place + 1, known)
        value ^= other
    return value, place


def _inverted(tokens: Sequence[str], place: int, known: Mapping[str, int]) -> tuple[int, int]:
    token = tokens[place]
    if token == "!":
        value, place = _inverted(tokens, place + 1, known)
        return ALL & ~value, place
    if token == "(":
        value, place = _either(tokens, place + 1, known)
        if tokens[place] != ")":
            raise KeyError(tokens[place])
        place += 1
    else:
        value, place = known[token], place + 1
    while tokens[place : place + 1] == ["'"]:
        value, place = ALL & ~value, place + 1
    return value, place
