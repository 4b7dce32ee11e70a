"""The space of a search: configurations in which a value may be a choice or a range.

A list is a choice; `{low, high}` with integers is a range of integers, `step` apart when given;
with a real number it is a continuous range. Every node of the graph gets dimensions of its own,
unless the entry that selects it, or the value, is `shared`: then all nodes of the entry have one.
The format itself may be a choice (`name`, where `none` leaves the layer in real numbers); a key
counts where the chosen format has it. A table `{same_as = KEY}` ties a value to another key of the
node, or to `NODE.KEY`; `{choices = [...], when = {KEY = VALUE}, otherwise = VALUE}` counts under a
condition.

The tables are `quantize` and `parallelism`, as `emit-verilog` takes them, without the first the
formats that emission has by default; `prune`, arguments of `prune_transform_pass` and tables of
them by node; `skip`, expressions for layers that a trial may
leave out; and `architecture`, arguments of the function that builds the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from torch.fx import Node

from mase_hw._checks import check_bool
from mase_hw._kinds import Record, Table
from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.passes.compression.prune import ARGUMENTS, report_sparsity_analysis_pass
from mase_hw.passes.compression.skip import skippable
from mase_hw.passes.configuration import Configuration
from mase_hw.passes.formats import quantize
from mase_hw.registry import nearest
from mase_hw.search.values import (
    SHARED,
    Condition,
    Dimension,
    Item,
    Proposer,
    Tie,
    Value,
    choices_of,
    dimension_or,
    dimensions_of,
    parse_item,
    references_of,
)

TABLES = ("quantize", "parallelism", "prune", "skip", "architecture")


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

    quantize: Mapping[str, Mapping[str, Item]]
    default: Table
    parallelism: Mapping[str, Value | Dimension | Mapping[str, Value | Dimension]]
    prune: Mapping[str, Value | Dimension | Mapping[str, Value | Dimension]] = field(
        default_factory=dict
    )
    skip: Mapping[str, Dimension] = field(default_factory=dict)
    architecture: Mapping[str, Value | Dimension] = field(default_factory=dict)
    weights: tuple[str, ...] = ()
    legal: Mapping[str, Mapping[str, Collection[str]]] = field(default_factory=dict)

    @classmethod
    def parse(
        cls, mg: MaseGraph, tables: Mapping[str, object], elsewhere: Collection[str] = ()
    ) -> Space:
        """Read the tables of a space for a graph.

        Args:
            mg: a canonical graph with common metadata.
            tables: see `mase_hw.search.space`.
            elsewhere: names that are legal although this graph has no such node, because another
                architecture has.

        Raises:
            ConfigError: for a name that matches no node, an unknown key, or a bad range.
        """
        unknown = sorted(set(tables) - set(TABLES))
        if unknown:
            raise ConfigError(f"space: unknown table {unknown[0]!r}; known: {', '.join(TABLES)}")
        nodes = [node for node in mg.nodes if node.op == "call_function"]
        names = [node.name for node in nodes]
        absent = [name for name in elsewhere if name not in names]
        formats, shared = _without_shared(tables.get("quantize", {}))
        config = Configuration.parse(formats, [*names, *absent])
        selectors = {id(entry): key for key, entry in config.entries.items()}
        entries: dict[str, dict[str, Item]] = {}
        legal: dict[str, dict[str, set[str]]] = {}
        for node in quantize.configurable(mg):
            entry = config.for_node(node.name, common(node).operator)
            legal[node.name] = _legal_keys(node, entry)
            selector = selectors.get(id(entry), "default")
            stem = selector if selector in shared else node.name
            entries[node.name] = {
                key: parse_item(f"{stem}.{key}", value, f"{selector}.{key}")
                for key, value in entry.items()
                if value is not None
            }
        _check_references(entries, absent)
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

    @staticmethod
    def formats(tables: Mapping[str, object]) -> Any:
        """Return the table of formats, in which a key may have several values."""
        return _without_shared(tables.get("quantize", {}))[0]

    @property
    def dimensions(self) -> list[Dimension]:
        """Every dimension, in the order of the graph."""
        dimensions = [
            dimension
            for entry in self.quantize.values()
            for value in entry.values()
            for dimension in dimensions_of(value)
        ]
        for item in (*self.parallelism.values(), *self.prune.values()):
            members = item.values() if isinstance(item, Mapping) else [item]
            dimensions += [value for value in members if isinstance(value, Dimension)]
        built = self.architecture.values()
        dimensions += [*self.skip.values(), *(v for v in built if isinstance(v, Dimension))]
        # Nodes may share one.
        return list({dimension.name: dimension for dimension in dimensions}.values())

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
        for name, items in values.items():
            if items is None:
                raise ConfigError(
                    f"a grid needs discrete values and {name} is continuous; "
                    "give it a step, a list of choices, or another sampler"
                )
        return {name: items for name, items in values.items() if items is not None}

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
        return [{**proposed(entry, trial), "nodes": names} for entry, names in groups]

    def propose(self, trial: Proposer, skipped: Collection[str] = ()) -> tuple[Record, Record]:
        """Return the configuration of number formats and the parallelism of a trial."""
        config: Record = {"by": "name", "default": {"config": dict(self.default)}}
        proposal = _Proposal(self, trial)
        for name in self.quantize:
            if name not in skipped:
                config[name] = {"config": proposal.entry(name)}
        tiles = {
            name: proposed(item, trial) if isinstance(item, Mapping) else _value(item, trial)
            for name, item in self.parallelism.items()
            if name not in skipped
        }
        return config, tiles


class _Proposal:
    """The entries that one trial proposes, each value asked for once."""

    def __init__(self, space: Space, trial: Proposer | None) -> None:
        self._space, self._trial = space, trial
        self._known: dict[tuple[str, str], Any] = {}

    def entry(self, node: str) -> dict[str, Value]:
        """Return a node's entry: the format first, and then what that format has."""
        keys = self._space.legal[node][str(self._value(node, "name"))]
        order = [key for key in self._space.quantize[node] if key in keys and key != "name"]
        values = {key: self._value(node, key) for key in ("name", *order)}
        return {key: value for key, value in values.items() if value is not None}

    def values(self, node: str) -> dict[str, Value]:
        """Return all values of an entry, those that do not count left out."""
        items = self._space.quantize[node]
        values = {key: self._value(node, key) for key in items}
        return {
            key: value for key, value in values.items() if value is not None or items[key] is None
        }

    def _value(self, node: str, key: str) -> Any:
        if (node, key) not in self._known:
            self._known[node, key] = self._resolve(node, self._space.quantize[node].get(key))
        return self._known[node, key]

    def _resolve(self, node: str, item: object) -> Any:
        if isinstance(item, Dimension):
            assert self._trial is not None
            return item.propose(self._trial)
        if isinstance(item, Tie):
            return self._value(*_place(node, item.key, self._space.quantize))
        if isinstance(item, Condition):
            for key, allowed in item.when.items():
                if self._value(*_place(node, key, self._space.quantize)) not in allowed:
                    return item.otherwise
            return self._resolve(node, item.then)
        return item


def settle(mg: MaseGraph, config: Mapping[str, object]) -> dict[str, object]:
    """Return number formats without ties and conditions: with the values that they mean.

    Args:
        mg: a canonical graph.
        config: number formats, in which a value may be a tie or a condition as in a space, and
            none a choice.

    Raises:
        ConfigError: for a choice, a reference that leads nowhere, or an unknown key.
    """
    names = [node.name for node in mg.nodes if node.op == "call_function"]
    parsed = Configuration.parse(config, names)
    nodes = {
        node.name: parsed.for_node(node.name, common(node).operator)
        for node in quantize.configurable(mg)
    }
    selected = {**parsed.entries, "default": parsed.default}
    entries: dict[str, dict[str, Item]] = {
        name: {
            key: parse_item(f"{name}.{key}", value) if isinstance(value, Mapping) else value
            for key, value in entry.items()
        }
        for name, entry in {**nodes, **selected}.items()
    }
    for item in (item for entry in entries.values() for item in entry.values()):
        for dimension in dimensions_of(item):
            raise ConfigError(
                f"{dimension.name} has several values; a search or a sweep has choices"
            )
    _check_references(entries, ())
    proposal = _Proposal(Space(entries, {}, {}), None)
    settled: dict[str, object] = {
        key: {"config": proposal.values(key)} if key in selected else value
        for key, value in config.items()
    }
    checked = Configuration.parse(settled, names)
    for node in quantize.configurable(mg):
        quantize.check_keys(node, checked.for_node(node.name, common(node).operator))
    return settled


def _place(node: str, key: str, entries: Mapping[str, Mapping[str, Item]]) -> tuple[str, str]:
    """Return the node and the key that a reference from a node means."""
    other, dot, rest = key.rpartition(".")
    if not dot:
        return node, key
    # A node that this architecture has not: its own value is taken.
    return (other if other in entries else node), rest


def _check_references(entries: Mapping[str, Mapping[str, Item]], absent: Collection[str]) -> None:
    """Refuse ties and conditions on what is not there, and those that go round in a circle.

    Raises:
        ConfigError: naming the reference.
    """
    edges: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for node, entry in entries.items():
        for key, item in entry.items():
            edges[node, key] = set()
            for reference in references_of(item):
                other = reference.rpartition(".")[0]
                place = _place(node, reference, entries)
                if other and other not in entries and other not in absent:
                    raise ConfigError(
                        f"space: {node}.{key} refers to {other!r}, which is no searched node; "
                        f"{nearest(other, entries)}"
                    )
                if other not in absent and place[1] not in entries[place[0]]:
                    raise ConfigError(
                        f"space: {node}.{key} refers to {reference!r}, which the entry does not "
                        f"give; {nearest(place[1], entries[place[0]])}"
                    )
                edges[node, key].add(place)
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        raise ConfigError(f"space: {'.'.join(error.args[1][0])} refers to itself") from error


def _without_shared(table: object) -> tuple[Any, set[str]]:
    if not isinstance(table, Mapping):
        return table, set()
    entries, shared = dict(table), set()
    for key, entry in table.items():
        if isinstance(entry, Mapping) and SHARED in entry:
            check_bool(f"space: shared of {key}", entry[SHARED])
            shared |= {key} if entry[SHARED] else set()
            entries[key] = {name: value for name, value in entry.items() if name != SHARED}
    return entries, shared


def _legal_keys(node: Node, entry: Mapping[str, object]) -> dict[str, set[str]]:
    """Return the keys of an entry that each of the formats it may choose has.

    Raises:
        ConfigError: for a key that none of them has.
    """
    choices = choices_of(entry.get("name")) or [None]
    legal: dict[str, set[str]] = {str(choice): {"name"} for choice in choices}
    # An operand whose format is names has the keys of that.
    own = {key: name for key, name in entry.items() if key.endswith("_name") if type(name) is str}
    for key, value in entry.items():
        errors = []
        # A name of an operand's own format may be a choice, too.
        names = choices_of(value) if key.endswith("_name") else [value]
        for choice in choices:
            try:
                for item in names:
                    quantize.check_keys(node, {**own, key: item, "name": choice})
            except ConfigError as error:
                errors.append(error)
            else:
                legal[str(choice)].add(key)
        if len(errors) == len(choices) > 0:
            raise errors[-1]
    return legal


def architecture(tables: Mapping[str, object]) -> dict[str, Value | Dimension]:
    """Return the arguments of the function that builds the model, constants and dimensions."""
    arguments = tables.get("architecture", {})
    if not isinstance(arguments, Mapping):
        raise ConfigError(f"space: architecture is {arguments!r}; allowed: a table")
    return {key: dimension_or(f"architecture.{key}", value) for key, value in arguments.items()}


def _value(item: Value | Dimension, trial: Proposer) -> Value:
    return item.propose(trial) if isinstance(item, Dimension) else item


def proposed(entry: Mapping[str, Value | Dimension], trial: Proposer) -> dict[str, Value]:
    """Return a table with the values that a trial proposes for its dimensions."""
    return {key: _value(item, trial) for key, item in entry.items()}


def _parallelism(tiles: object, names: list[str], absent: list[str]) -> Record:
    table = tiles if isinstance(tiles, Mapping) and "low" not in tiles else {"default": tiles}
    parsed: Record = {}
    for name, value in table.items():
        where = f"parallelism.{name}"
        if name == "default":
            parsed[name] = dimension_or(where, value)
        elif name not in names and name not in absent:
            raise ConfigError(f"space: parallelism names no node {name!r}; {nearest(name, names)}")
        elif not isinstance(value, Mapping):
            raise ConfigError(
                f"space: {where} is {value!r}; allowed: a table such as data_in_0_dim_0"
            )
        elif name in names:
            parsed[name] = {
                key: dimension_or(f"{where}.{key}", item) for key, item in value.items()
            }
    return parsed


def _prune(table: object, weights: tuple[str, ...], absent: list[str]) -> Record:
    if not isinstance(table, Mapping):
        raise ConfigError(f"space: prune is {table!r}; allowed: a table such as sparsity")
    parsed: Record = {}
    for key, value in table.items():
        where = f"prune.{key}"
        if key in ARGUMENTS:
            parsed[key] = _pruning(where, key, value)
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
            parsed[key] = {
                name: _pruning(f"{where}.{name}", name, item) for name, item in value.items()
            }
    return parsed


def _pruning(where: str, key: str, value: object) -> Value | Dimension:
    parsed: Value | Dimension = dimension_or(where, value)
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
    expressions = [patterns] if isinstance(patterns, str) else list(patterns)
    dimensions: dict[str, Dimension] = {}
    for pattern in expressions:
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
        dimensions |= {name: Dimension(f"skip.{name}", (False, True)) for name in chosen}
    return dimensions
