"""The space of a search: configurations in which a value may be a choice or a range.

A list is a choice; `{low, high}` with integers is a range of integers, `step` apart when given;
with a real number it is a continuous range. Every node of the graph gets dimensions of its own.
The format itself may be a choice (`name`); a key counts where the chosen format has it.

The tables are `quantize` and `parallelism`, as `emit-verilog` takes them; `prune`, arguments of
`prune_transform_pass` and tables of them by node; `skip`, expressions for layers that a trial may
leave out; and `architecture`, arguments of the function that builds the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch.fx import Node

from mase_hw._registry import nearest
from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.passes import quantize
from mase_hw.passes._configuration import Configuration
from mase_hw.passes.prune import ARGUMENTS, report_sparsity_analysis_pass
from mase_hw.passes.skip import skippable

TABLES = ("quantize", "parallelism", "prune", "skip", "architecture")
RANGE_KEYS = ("low", "high", "step")
Value = bool | int | float | str


class Proposer(Protocol):
    """What a space asks for values: an Optuna trial."""

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        """Return one of the choices."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1) -> int:
        """Return an integer."""

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None) -> float:
        """Return a real number."""


@dataclass(frozen=True)
class Dimension:
    """One value that is searched.

    Attributes:
        name: `<node>.<key>`, or with the table in front, as `parallelism.<node>.<key>`.
        choices: what it may be, None for a range.
        low: smallest value of a range.
        high: largest value.
        step: distance between values; None for a continuous range.
    """

    name: str
    choices: tuple[Value, ...] | None = None
    low: float = 0
    high: float = 0
    step: float | None = None

    @classmethod
    def parse(cls, name: str, value: Any) -> Dimension | None:
        """Return the dimension that a value of a configuration stands for; None for a constant.

        Raises:
            ConfigError: for an empty choice or a range that is none.
        """
        if isinstance(value, list | tuple):
            if not value:
                raise ConfigError(f"space: {name} is an empty list; give at least one choice")
            return cls(name, tuple(value))
        if not isinstance(value, Mapping):
            return None
        unknown = sorted(set(value) - set(RANGE_KEYS))
        if unknown or not {"low", "high"} <= set(value):
            raise ConfigError(
                f"space: {name} is {dict(value)!r}; a range has the keys low and high, "
                "and step if it is not 1"
            )
        low, high, step = value["low"], value["high"], value.get("step")
        numbers = [number for number in (low, high, step) if number is not None]
        if any(
            not isinstance(number, int | float) or isinstance(number, bool) for number in numbers
        ):
            raise ConfigError(f"space: the range of {name} holds {value!r}; allowed: numbers")
        if low > high or (step is not None and step <= 0):
            raise ConfigError(f"space: the range of {name} is empty: {dict(value)!r}")
        if step is None and all(isinstance(number, int) for number in (low, high)):
            step = 1
        return cls(name, None, low, high, step)

    @property
    def values(self) -> tuple[Value, ...] | None:
        """Every value; None where the range is continuous."""
        if self.choices is not None:
            return self.choices
        if self.step is None:
            return None
        count = int((self.high - self.low) / self.step + 1e-9) + 1
        return tuple(self.low + index * self.step for index in range(count))

    def propose(self, trial: Proposer) -> Value:
        """Return the value that a trial proposes."""
        if self.choices is not None:
            value: Value = trial.suggest_categorical(self.name, self.choices)
            return value
        if all(isinstance(number, int) for number in (self.low, self.high, self.step)):
            return trial.suggest_int(
                self.name, int(self.low), int(self.high), step=int(self.step or 1)
            )
        return trial.suggest_float(self.name, self.low, self.high, step=self.step)


@dataclass(frozen=True)
class Space:
    """All dimensions of a search, and what is constant.

    Attributes:
        quantize: entry by node; a value is a constant or a dimension.
        default: family of the entry of all other nodes, as a configuration.
        parallelism: `default` and entries by node, likewise.
        prune: arguments of pruning, and those of single nodes by name.
        skip: a dimension, true or false, for each layer that may be left out.
        architecture: arguments of the function that builds the model.
        weights: names of the nodes that can be pruned.
        legal: keys of each node's entry by the format that it may choose.
    """

    quantize: Mapping[str, Mapping[str, Value | Dimension]]
    default: Mapping[str, Any]
    parallelism: Mapping[str, Value | Dimension | Mapping[str, Value | Dimension]]
    prune: Mapping[str, Value | Dimension | Mapping[str, Value | Dimension]] = field(
        default_factory=dict
    )
    skip: Mapping[str, Dimension] = field(default_factory=dict)
    architecture: Mapping[str, Value | Dimension] = field(default_factory=dict)
    weights: tuple[str, ...] = ()
    legal: Mapping[str, Mapping[str, Collection[str]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, mg: MaseGraph, tables: Mapping[str, Any], known: Collection[str] = ()) -> Space:
        """Read the tables of a space for a graph.

        Args:
            mg: a canonical graph with common metadata.
            tables: see `mase_hw.search.space`.
            known: names that may be given although this graph has no such node, because another
                architecture has.

        Raises:
            ConfigError: for a name that matches no node, an unknown key, or a bad range.
        """
        unknown = sorted(set(tables) - set(TABLES))
        if unknown:
            raise ConfigError(f"space: unknown table {unknown[0]!r}; known: {', '.join(TABLES)}")
        nodes = [node for node in mg.nodes if node.op == "call_function"]
        names = [node.name for node in nodes]
        absent = [name for name in known if name not in names]
        config = Configuration.parse(tables.get("quantize", {}), [*names, *absent])
        entries: dict[str, dict[str, Value | Dimension]] = {}
        legal: dict[str, dict[str, set[str]]] = {}
        for node in nodes:
            if not quantize.casts(node):
                continue
            entry = config.for_node(node.name, common(node).operator)
            legal[node.name] = _legal_keys(node, entry)
            entries[node.name] = {
                key: _parsed(f"{node.name}.{key}", value)
                for key, value in entry.items()
                if value is not None
            }
        family = config.default.get("name")
        default = {"name": family} if isinstance(family, str) else {}
        inputs = [node.name for node in mg.inputs]
        weights = tuple(report_sparsity_analysis_pass(mg)[1]["nodes"])
        return cls(
            entries,
            default,
            _parallelism(tables.get("parallelism", {}), [*names, *inputs], absent),
            _prune(tables.get("prune", {}), weights, absent),
            _skip(tables.get("skip", ()), skippable(mg), absent),
            architecture(tables),
            weights,
            legal,
        )

    @property
    def dimensions(self) -> list[Dimension]:
        """Every dimension, in the order of the graph."""
        found = [
            value
            for entry in self.quantize.values()
            for value in entry.values()
            if isinstance(value, Dimension)
        ]
        for item in (*self.parallelism.values(), *self.prune.values()):
            members = item.values() if isinstance(item, Mapping) else [item]
            found += [value for value in members if isinstance(value, Dimension)]
        found += self.skip.values()
        return found + [
            value for value in self.architecture.values() if isinstance(value, Dimension)
        ]

    def grid(self) -> dict[str, tuple[Value, ...]]:
        """Return every value of every dimension.

        Raises:
            ConfigError: when a dimension is continuous, or what is searched differs from trial to
                trial.
        """
        built = [item for item in self.architecture.values() if isinstance(item, Dimension)]
        if 0 < len(built) < len(self.dimensions):
            raise ConfigError(
                "a grid needs the same dimensions in every trial, and those of nodes depend on the "
                "architecture; search one of the two, or give another sampler"
            )
        values = {dimension.name: dimension.values for dimension in self.dimensions}
        for name, found in values.items():
            if found is None:
                raise ConfigError(
                    f"a grid needs discrete values and {name} is continuous; "
                    "give it a step, a list of choices, or another sampler"
                )
        return {name: found for name, found in values.items() if found is not None}

    def propose_skips(self, trial: Proposer) -> list[str]:
        """Return the names of the layers that a trial leaves out."""
        return [name for name, dimension in self.skip.items() if dimension.propose(trial)]

    def propose_prunings(self, trial: Proposer, skipped: Collection[str] = ()) -> list[Any]:
        """Return the arguments of every pruning of a trial."""
        own = {name: item for name, item in self.prune.items() if isinstance(item, Mapping)}
        general = {name: item for name, item in self.prune.items() if not isinstance(item, Mapping)}
        rest = [name for name in self.weights if name not in own and name not in skipped]
        groups: list[tuple[Any, list[str]]] = [
            (entry, [name]) for name, entry in own.items() if name not in skipped
        ]
        groups += [(general, rest)] if general and rest else []
        return [{**_proposed(entry, trial), "nodes": names} for entry, names in groups]

    def _entry(
        self, node: str, entry: Mapping[str, Value | Dimension], trial: Proposer
    ) -> dict[str, Value]:
        """Return a node's entry: the format first, and then what that format has."""
        chosen = {"name": _value(entry["name"], trial)} if "name" in entry else {}
        keys = self.legal[node][str(chosen.get("name"))]
        rest = {key: item for key, item in entry.items() if key in keys and key != "name"}
        return chosen | _proposed(rest, trial)

    def propose(
        self, trial: Proposer, skipped: Collection[str] = ()
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the configuration of number formats and the parallelism of a trial."""
        config: dict[str, Any] = {"by": "name", "default": {"config": dict(self.default)}}
        for name, entry in self.quantize.items():
            if name not in skipped:
                config[name] = {"config": self._entry(name, entry, trial)}
        tiles = {
            name: _proposed(item, trial) if isinstance(item, Mapping) else _value(item, trial)
            for name, item in self.parallelism.items()
            if name not in skipped
        }
        return config, tiles


def _legal_keys(node: Node, entry: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the keys of an entry that each of the formats it may choose has.

    Raises:
        ConfigError: for a key that none of them has.
    """
    names = entry.get("name")
    choices = list(names) if isinstance(names, list | tuple) else [names]
    found: dict[str, set[str]] = {str(choice): {"name"} for choice in choices}
    # An operand whose format is given has the keys of that.
    own = {key: name for key, name in entry.items() if key.endswith("_name") if type(name) is str}
    for key, value in entry.items():
        errors = []
        for choice in choices:
            try:
                quantize.check_keys(node, {**own, key: value, "name": choice})
            except ConfigError as error:
                errors.append(error)
            else:
                found[str(choice)].add(key)
        if len(errors) == len(choices) > 0:
            raise errors[-1]
    return found


def architecture(tables: Mapping[str, Any]) -> dict[str, Value | Dimension]:
    """Return the arguments of the function that builds the model, constants and dimensions."""
    given = tables.get("architecture", {})
    if not isinstance(given, Mapping):
        raise ConfigError(f"space: architecture is {given!r}; allowed: a table")
    return {key: _parsed(f"architecture.{key}", value) for key, value in given.items()}


def propose_architecture(
    given: Mapping[str, Value | Dimension], trial: Proposer
) -> dict[str, Value]:
    """Return the arguments that a trial builds the model with."""
    return _proposed(given, trial)


def _parsed(name: str, value: Any) -> Value | Dimension:
    dimension = Dimension.parse(name, value)
    found: Value | Dimension = value if dimension is None else dimension
    return found


def _value(item: Value | Dimension, trial: Proposer) -> Value:
    return item.propose(trial) if isinstance(item, Dimension) else item


def _proposed(entry: Mapping[str, Value | Dimension], trial: Proposer) -> dict[str, Value]:
    return {key: _value(item, trial) for key, item in entry.items()}


def _parallelism(tiles: Any, names: list[str], absent: list[str]) -> dict[str, Any]:
    table = tiles if isinstance(tiles, Mapping) and "low" not in tiles else {"default": tiles}
    found: dict[str, Any] = {}
    for name, value in table.items():
        where = f"parallelism.{name}"
        if name == "default":
            found[name] = _parsed(where, value)
        elif name not in names and name not in absent:
            raise ConfigError(f"space: parallelism of {name!r}, no node; {nearest(name, names)}")
        elif not isinstance(value, Mapping):
            raise ConfigError(
                f"space: {where} is {value!r}; allowed: a table such as data_in_0_dim_0"
            )
        elif name in names:
            found[name] = {key: _parsed(f"{where}.{key}", item) for key, item in value.items()}
    return found


def _prune(table: Any, weights: tuple[str, ...], absent: list[str]) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise ConfigError(f"space: prune is {table!r}; allowed: a table such as sparsity")
    found: dict[str, Any] = {}
    for key, value in table.items():
        where = f"prune.{key}"
        if key in ARGUMENTS:
            found[key] = _pruning(where, key, value)
        elif key not in weights and key not in absent:
            raise ConfigError(
                f"space: prune has no {key!r}, neither an argument nor a node with a weight; "
                f"{nearest(key, (*ARGUMENTS, *weights))}"
            )
        elif not isinstance(value, Mapping) or not set(value) <= set(ARGUMENTS):
            raise ConfigError(
                f"space: {where} is {value!r}; allowed: a table of {', '.join(ARGUMENTS)}"
            )
        elif key in weights:
            found[key] = {
                name: _pruning(f"{where}.{name}", name, item) for name, item in value.items()
            }
    return found


def _pruning(where: str, key: str, value: Any) -> Value | Dimension:
    parsed = _parsed(where, value)
    if key == "sparsity":
        choices = (parsed,) if not isinstance(parsed, Dimension) else parsed.choices
        for number in choices or (parsed.low, parsed.high):  # type: ignore[union-attr]
            if isinstance(number, bool | str | Dimension) or not 0 <= number < 1:
                raise ConfigError(
                    f"space: {where} may be {number!r}; allowed: from 0 to below 1 (a range of "
                    "real numbers, such as low = 0.0, is continuous)"
                )
    return parsed


def _skip(patterns: Any, names: list[str], absent: list[str]) -> dict[str, Dimension]:
    """Return a dimension for each layer that a list of regular expressions selects."""
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    found: dict[str, Dimension] = {}
    for pattern in given:
        try:
            chosen = [name for name in names if re.fullmatch(pattern, name)]
            elsewhere = any(re.fullmatch(pattern, name) for name in absent)
        except (re.error, TypeError) as error:
            raise ConfigError(f"space: skip {pattern!r} is no expression: {error}") from error
        if not chosen and not elsewhere:
            raise ConfigError(
                f"space: skip {pattern!r} matches no layer that can be left out; "
                f"{nearest(pattern, names)}"
            )
        found |= {name: Dimension(f"skip.{name}", (False, True)) for name in chosen}
    return found
