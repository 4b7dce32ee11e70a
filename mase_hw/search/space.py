"""The space of a search: configurations in which a value may be a choice or a range.

A list is a choice; `{low, high}` with integers is a range of integers, `step` apart when given;
with a real number it is a continuous range. Every node of the graph gets dimensions of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mase_hw._registry import nearest
from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.passes import quantize
from mase_hw.passes._configuration import Configuration

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
        name: `<node>.<key>`, or `parallelism.<node>.<key>`.
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
    """

    quantize: Mapping[str, Mapping[str, Value | Dimension]]
    default: Mapping[str, Any]
    parallelism: Mapping[str, Value | Dimension | Mapping[str, Value | Dimension]]

    @classmethod
    def parse(cls, mg: MaseGraph, tables: Mapping[str, Any]) -> Space:
        """Read the tables `quantize` and `parallelism` for a graph.

        Args:
            mg: a canonical graph with common metadata.
            tables: `quantize` in the shape that `quantize_transform_pass` takes, `parallelism` in
                that of `assign_parallelism_transform_pass`.

        Raises:
            ConfigError: for a name that matches no node, an unknown key, or a bad range.
        """
        unknown = sorted(set(tables) - {"quantize", "parallelism"})
        if unknown:
            raise ConfigError(f"space: unknown table {unknown[0]!r}; known: quantize, parallelism")
        nodes = [node for node in mg.nodes if node.op == "call_function"]
        names = [node.name for node in nodes]
        config = Configuration.parse(tables.get("quantize", {}), names)
        entries: dict[str, dict[str, Value | Dimension]] = {}
        for node in nodes:
            if not quantize.casts(node):
                continue
            entry = config.for_node(node.name, common(node).operator)
            quantize.check_keys(node, entry)
            entries[node.name] = {
                key: _parsed(f"{node.name}.{key}", value)
                for key, value in entry.items()
                if value is not None
            }
        family = config.default.get("name")
        default = {"name": family} if isinstance(family, str) else {}
        tiles = tables.get("parallelism", {})
        return cls(entries, default, _parallelism(tiles, [*names, *(n.name for n in mg.inputs)]))

    @property
    def dimensions(self) -> list[Dimension]:
        """Every dimension, in the order of the graph."""
        found = [
            value
            for entry in self.quantize.values()
            for value in entry.values()
            if isinstance(value, Dimension)
        ]
        for item in self.parallelism.values():
            members = item.values() if isinstance(item, Mapping) else [item]
            found += [value for value in members if isinstance(value, Dimension)]
        return found

    def grid(self) -> dict[str, tuple[Value, ...]]:
        """Return every value of every dimension.

        Raises:
            ConfigError: when a dimension is continuous.
        """
        values = {dimension.name: dimension.values for dimension in self.dimensions}
        for name, found in values.items():
            if found is None:
                raise ConfigError(
                    f"a grid needs discrete values and {name} is continuous; "
                    "give it a step, a list of choices, or another sampler"
                )
        return {name: found for name, found in values.items() if found is not None}

    def propose(self, trial: Proposer) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the configuration of number formats and the parallelism of a trial."""
        config: dict[str, Any] = {"by": "name", "default": {"config": dict(self.default)}}
        for name, entry in self.quantize.items():
            config[name] = {"config": _proposed(entry, trial)}
        tiles = {
            name: _proposed(item, trial) if isinstance(item, Mapping) else _value(item, trial)
            for name, item in self.parallelism.items()
        }
        return config, tiles


def _parsed(name: str, value: Any) -> Value | Dimension:
    dimension = Dimension.parse(name, value)
    found: Value | Dimension = value if dimension is None else dimension
    return found


def _value(item: Value | Dimension, trial: Proposer) -> Value:
    return item.propose(trial) if isinstance(item, Dimension) else item


def _proposed(entry: Mapping[str, Value | Dimension], trial: Proposer) -> dict[str, Value]:
    return {key: _value(item, trial) for key, item in entry.items()}


def _parallelism(tiles: Any, names: list[str]) -> dict[str, Any]:
    table = tiles if isinstance(tiles, Mapping) and "low" not in tiles else {"default": tiles}
    found: dict[str, Any] = {}
    for name, value in table.items():
        where = f"parallelism.{name}"
        if name == "default":
            found[name] = _parsed(where, value)
        elif name not in names:
            raise ConfigError(f"space: parallelism of {name!r}, no node; {nearest(name, names)}")
        elif not isinstance(value, Mapping):
            raise ConfigError(
                f"space: {where} is {value!r}; allowed: a table such as data_in_0_dim_0"
            )
        else:
            found[name] = {key: _parsed(f"{where}.{key}", item) for key, item in value.items()}
    return found
