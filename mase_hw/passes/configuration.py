"""Configurations by type, by name or by regular expression; the most specific entry wins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw._kinds import Record, Table
from mase_hw.errors import ConfigError
from mase_hw.formats import DEFAULT_FORMAT
from mase_hw.ops import operators
from mase_hw.registry import nearest

SELECTORS = ("name", "regex_name", "type")
# Everything stays in float.
FLOAT: Mapping[str, object] = {"default": {"config": {"name": None}}}
# Of every node where a configuration says nothing.
DEFAULT_ENTRY: Table = {
    "name": DEFAULT_FORMAT,
    "data_in_width": 8,
    "weight_width": 8,
    "bias_width": 8,
}


@dataclass(frozen=True)
class Configuration:
    """Entries of a configuration, resolved for one node at a time.

    Attributes:
        by: how keys are read, most specific first.
        default: the entry of nodes that no key matches.
        entries: the others by key.
    """

    by: tuple[str, ...]
    default: Table
    entries: Mapping[str, Table]

    @classmethod
    def parse(
        cls, config: Mapping[str, object], node_names: list[str] | None = None
    ) -> Configuration:
        """Read `{"by": ..., "default": {"config": ...}, KEY: {"config": ...}, ...}`.

        Without a default, nodes that no key matches stay as they are; a configuration that has no
        key either, beside `by`, is that of 8-bit fixed point everywhere.

        Args:
            config: the user's dictionary, which is not changed. `by` is `type`, `name`,
                `regex_name`, or a list of them.
            node_names: the graph's nodes; without them keys are not checked.

        Raises:
            ConfigError: for an unknown selector, or a key that selects nothing.
        """
        if not isinstance(config, Mapping):
            raise ConfigError(
                f"configuration is {config!r}; allowed: a table with by, default, ..."
            )
        by = config.get("by", "type")
        selectors = tuple(by) if isinstance(by, list | tuple) else (by,)
        for selector in selectors:
            if selector not in SELECTORS:
                raise ConfigError(
                    f"configuration: by is {selector!r}; {nearest(str(selector), SELECTORS)}"
                )
        ordered = tuple(selector for selector in SELECTORS if selector in selectors)
        entries = {
            key: _entry(key, value) for key, value in config.items() if key not in ("by", "default")
        }
        if node_names is not None:
            for key in entries:
                _check_key(key, ordered, node_names)
        default = {"config": DEFAULT_ENTRY if says_nothing(config) else {"name": None}}
        return cls(ordered, _entry("default", config.get("default", default)), entries)

    def for_node(self, name: str, operator: str | None) -> Mapping[str, object]:
        """Return the entry for a node: by name, else by expression, else by type, else default."""
        own = self.own(name, operator)
        return self.default if own is None else own

    def own(self, name: str, operator: str | None) -> Table | None:
        """Return the entry whose key selects a node, None where only the default is left."""
        for selector in self.by:
            for key, entry in self.entries.items():
                if _matches(selector, key, name, operator):
                    return entry
        return None


def with_entries(config: Mapping[str, object], entries: Mapping[str, object]) -> Record:
    """Return a configuration in which entries by name come first; the default is explicit."""
    by = config.get("by", "type")
    selectors = list(by) if isinstance(by, list | tuple) else [by]
    default = {} if "default" in config else {"default": {"config": DEFAULT_ENTRY}}
    return {**config, **default, "by": list(dict.fromkeys(["name", *selectors])), **entries}


def says_nothing(config: object) -> bool:
    """True if a configuration is the same as none."""
    return config is None or (isinstance(config, Mapping) and not config.keys() - {"by"})


def _matches(selector: str, key: str, name: str, operator: str | None) -> bool:
    if selector == "name":
        return key == name
    if selector == "type":
        return key == operator
    try:
        return re.fullmatch(key, name) is not None
    except re.error as error:
        raise ConfigError(f"configuration: {key!r} is no expression: {error}") from error


def _entry(key: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not isinstance(value.get("config"), Mapping):
        raise ConfigError(
            f"configuration: {key} is {value!r}; allowed: a table with a table `config`"
        )
    unknown = sorted(set(value) - {"config"})
    if unknown:
        raise ConfigError(f"configuration: {key} has no key {unknown[0]!r}; known: config")
    entry: Mapping[str, object] = value["config"]
    return entry


def _check_key(key: str, selectors: tuple[str, ...], node_names: list[str]) -> None:
    known: set[str] = set()
    for selector in selectors:
        if selector == "type":
            known |= set(operators())
        elif selector == "name":
            known |= set(node_names)
        else:
            if any(_matches(selector, key, name, None) for name in node_names):
                return
            known |= set(node_names)
    if key not in known:
        raise ConfigError(
            f"configuration by {', '.join(selectors)}: {key!r} selects nothing; "
            f"{nearest(key, known)}"
        )
