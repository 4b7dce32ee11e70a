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

A search may begin with chosen number formats, its `start`. Without a space of formats, each width
of them may be up to `NARROWER` bits less, and fractions are fitted anew.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from torch.fx import Node

from mase_hw._checks import check_bool
from mase_hw._kinds import Record, Table
from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common
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
    Tie,
    Value,
    choices_of,
    dimension_or,
    dimensions_of,
    parse_item,
    proposed,
    references_of,
)

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

TABLES = ("quantize", "parallelism", "prune", "skip", "architecture")
NARROWER, LEAST = 2, 2
WIDTH, FRACTION = "_width", "_frac_width"


@dataclass(frozen=True)
class Space:
    """All dimensions of a search, and constants.

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
    default: Table = field(default_factory=dict)
    parallelism: Table = field(default_factory=dict)
    prune: Table = field(default_factory=dict)
    skip: Mapping[str, Dimension] = field(default_factory=dict)
    architecture: Table = field(default_factory=dict)
    weights: tuple[str, ...] = ()
    legal: Mapping[str, Mapping[str, Collection[str]]] = field(default_factory=dict)

    @classmethod
    def parse(
        cls, mg: MaseGraph, tables: Mapping[str, object], elsewhere: Collection[str] = ()
    ) -> Space:
        """Read the tables of a space for a canonical graph.

        Names of nodes that another architecture has, `elsewhere`, are legal, too.

        Raises:
            ConfigError: for a name that matches no node, an unknown key, or a bad range.
        """
        for name in sorted(set(tables) - set(TABLES)):
            raise ConfigError(f"space: unknown table {name!r}; known: {', '.join(TABLES)}")
        names = [node.name for node in mg.nodes if node.op == "call_function"]
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
        streams = [*names, *(node.name for node in mg.inputs)]
        weights = tuple(report_sparsity_analysis_pass(mg)[1]["nodes"])
        built = tables.get("architecture", {})
        if not isinstance(built, Mapping):
            raise ConfigError(f"space: architecture is {built!r}; allowed: a table")
        return cls(
            entries,
            {"name": family} if isinstance(family, str) else {},
            _parallelism(tables.get("parallelism", {}), streams, absent),
            _prune(tables.get("prune", {}), weights, absent),
            _skip(tables.get("skip", ()), skippable(mg), absent),
            {key: dimension_or(f"architecture.{key}", value) for key, value in built.items()},
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
        tables = (self.quantize, self.parallelism, self.prune, self.skip, self.architecture)
        # Nodes may share one.
        return list({item.name: item for table in tables for item in dimensions_of(table)}.values())

    def grid(self) -> dict[str, tuple[Value, ...]]:
        """Return every value of every dimension.

        Raises:
            ConfigError: when a dimension is continuous, or what is searched differs from trial to
                trial.
        """
        dimensions = self.dimensions
        if 0 < len(dimensions_of(self.architecture)) < len(dimensions):
            raise ConfigError(
                "a grid needs the same dimensions in every trial, and those of nodes depend on the "
                "architecture; search one of the two, or give another sampler"
            )
        values: dict[str, tuple[Value, ...]] = {}
        for item in dimensions:
            if item.values is None:
                raise ConfigError(
                    f"a grid needs discrete values and {item.name} is continuous; "
                    "give it a step, a list of choices, or another sampler"
                )
            values[item.name] = item.values
        return values

    def propose_skips(self, trial: BaseTrial) -> list[str]:
        """Return the names of the layers that a trial leaves out."""
        return [name for name, dimension in self.skip.items() if dimension.propose(trial)]

    def propose_prunings(self, trial: BaseTrial, skipped: Collection[str] = ()) -> list[Any]:
        """Return the arguments of every pruning of a trial."""
        own = {name: item for name, item in self.prune.items() if isinstance(item, Mapping)}
        general = {name: item for name, item in self.prune.items() if name not in own}
        rest = [name for name in self.weights if name not in own and name not in skipped]
        groups = [(entry, [name]) for name, entry in own.items() if name not in skipped]
        groups += [(general, rest)] if general and rest else []
        return [{**proposed(entry, trial), "nodes": names} for entry, names in groups]

    def propose(self, trial: BaseTrial, skipped: Collection[str] = ()) -> tuple[Record, Record]:
        """Return the configuration of number formats and the parallelism of a trial."""
        config: Record = {"by": "name", "default": {"config": dict(self.default)}}
        proposal = _Proposal(self, trial)
        for name in (name for name in self.quantize if name not in skipped):
            # The format first, and then its keys.
            keys = self.legal[name][str(proposal.value(name, "name"))]
            order = ["name", *(k for k in self.quantize[name] if k in keys and k != "name")]
            values = {key: proposal.value(name, key) for key in order}
            config[name] = {"config": {k: v for k, v in values.items() if v is not None}}
        tiles = {
            name: proposed(item, trial)
            for name, item in self.parallelism.items()
            if name not in skipped
        }
        return config, tiles

    def first_parameters(self, mg: MaseGraph, start: Table) -> dict[str, Value]:
        """Return proposals, by dimension, that come nearest to number formats.

        Dimensions that the formats do not name are left out.

        Raises:
            ConfigError: for a name that matches no node.
        """
        nodes: dict[str, Node] = {
            node.name: node for node in mg.nodes if node.op == "call_function"
        }
        config = Configuration.parse(start, list(nodes))
        parameters: dict[str, Value] = {}
        for name, entry in self.quantize.items():
            wanted = config.for_node(name, common(nodes[name]).operator)
            for key, item in entry.items():
                for dimension in dimensions_of(item):
                    value = dimension.nearest(wanted.get(key))
                    if value is not None:
                        parameters.setdefault(dimension.name, value)
        return parameters


class _Proposal:
    """The entries that one trial proposes, each value asked for once."""

    def __init__(self, space: Space, trial: BaseTrial | None) -> None:
        self._space, self._trial = space, trial
        self._values: dict[tuple[str, str], Any] = {}

    def value(self, node: str, key: str) -> Any:
        if (node, key) not in self._values:
            self._values[node, key] = self._resolve(node, self._space.quantize[node].get(key))
        return self._values[node, key]

    def _resolve(self, node: str, item: object) -> Any:
        if isinstance(item, Dimension):
            assert self._trial is not None
            return item.propose(self._trial)
        place = partial(_place, node, entries=self._space.quantize)
        if isinstance(item, Tie):
            return self.value(*place(item.key))
        if isinstance(item, Condition):
            for key, allowed in item.when.items():
                if self.value(*place(key)) not in allowed:
                    return item.otherwise
            return self._resolve(node, item.then)
        return item


def around(start: Table) -> dict[str, object]:
    """Return the space of formats around a configuration."""

    def narrower(entry: Table) -> dict[str, object]:
        return {
            key: {"low": max(LEAST, value - NARROWER), "high": value}
            if key.endswith(WIDTH) and isinstance(value, int) and value > LEAST
            else value
            for key, value in entry.items()
            if not key.endswith(FRACTION)
        }

    return {
        key: {**entry, "config": narrower(entry["config"])}
        if isinstance(entry, Mapping) and isinstance(entry.get("config"), Mapping)
        else entry
        for key, entry in start.items()
    }


def settle(mg: MaseGraph, config: Mapping[str, object]) -> dict[str, object]:
    """Return number formats whose ties and conditions, as in a space, are replaced by values.

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
    for dimension in dimensions_of(entries):
        raise ConfigError(f"{dimension.name} has several values; a search or a sweep has choices")
    _check_references(entries, ())
    proposal = _Proposal(Space(entries), None)
    settled: dict[str, object] = dict(config)
    for key in selected.keys() & config.keys():
        values = {name: (item, proposal.value(key, name)) for name, item in entries[key].items()}
        kept = {name: v for name, (item, v) in values.items() if v is not None or item is None}
        settled[key] = {"config": kept}
    checked = Configuration.parse(settled, names)
    for node in quantize.configurable(mg):
        quantize.check_keys(node, checked.for_node(node.name, common(node).operator))
    return settled


def _place(node: str, key: str, entries: Mapping[str, Mapping[str, Item]]) -> tuple[str, str]:
    other, dot, rest = key.rpartition(".")
    if not dot:
        return node, key
    # A node that this architecture has not: its own value is taken.
    return (other if other in entries else node), rest


def _check_references(entries: Mapping[str, Mapping[str, Item]], absent: Collection[str]) -> None:
    """Refuse ties and conditions that lead nowhere, or go round in a circle.

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
            parsed[name] = {k: dimension_or(f"{where}.{k}", item) for k, item in value.items()}
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
            parsed[key] = {k: _pruning(f"{where}.{k}", k, item) for k, item in value.items()}
    return parsed


def _pruning(where: str, key: str, value: object) -> Any:
    parsed = dimension_or(where, value)
    ends: tuple[Any, ...] = (parsed,)
    if isinstance(parsed, Dimension):
        ends = parsed.choices or (parsed.low, parsed.high)
    for number in ends if key == "sparsity" else ():
        if not isinstance(number, int | float) or type(number) is bool or not 0 <= number < 1:
            raise ConfigError(
                f"space: {where} may be {number!r}; allowed: from 0 to below 1 (a range of "
                "real numbers, such as low = 0.0, is continuous)"
            )
    return parsed


def _skip(patterns: Any, names: list[str], absent: list[str]) -> dict[str, Dimension]:
    dimensions: dict[str, Dimension] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
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
