"""Where the constants of every node lie: on chip, or in an external memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from mase_hw._checks import check_choice
from mase_hw._kinds import Record, Table
from mase_hw.errors import ConfigError
from mase_hw.graph.loops import twins_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.memory import AUTO, EXTERNAL, ON_CHIP, STYLES, MemoryPort
from mase_hw.ops import Weighted
from mase_hw.registry import nearest

PLACES = (ON_CHIP, EXTERNAL)
STYLE = "style"
# The same in a table of `parallelism`, where a search for the least resources writes it.
NODE_STYLE = "memory_style"
P = TypeVar("P")
Memory = str | Table


def place_constants(
    mg: MaseGraph, memory: Memory = ON_CHIP
) -> tuple[MemoryPort, dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the memory port, each node's operands that come through it, and its memories' style.

    Args:
        mg: a quantised graph.
        memory: a place for all constants that may be outside; or a table with `default`, `style`,
            the options of `MemoryPort`, and a table per node of operand to place, and its `style`.

    Raises:
        ConfigError: for an unknown node, operand, option, place or style; the message lists the
            legal.
    """
    table = memory if isinstance(memory, Mapping) else {"default": memory}
    default = _place("default", table.get("default", ON_CHIP))
    movable = _movable(mg)
    nodes = {key: entry for key, entry in table.items() if isinstance(entry, Mapping)}
    known = {"default", STYLE, *nodes}
    options = {key: item for key, item in table.items() if key not in known}
    style = _style(STYLE, table.get(STYLE, AUTO))
    constant = [item for item in mg.nodes if item.op == "call_function"]
    styles = {item.name: style for item in constant if mg.call(item).constants}
    chosen = {name: dict.fromkeys(operands, default) for name, operands in movable.items()}
    for name, given in nodes.items():
        entry = dict(given)
        if name in styles and STYLE in entry:
            styles[name] = _style(f"{name}.{STYLE}", entry.pop(STYLE))
            if not entry:
                continue
        if STYLE in entry:
            raise ConfigError(
                f"memory: {name!r} is no node with constants, to whose memories a style applies; "
                f"{nearest(name, styles) if styles else 'this model has none'}"
            )
        if name not in movable:
            raise ConfigError(
                f"memory: {name!r} is no node whose constants may be outside; "
                f"{nearest(name, movable) if movable else 'this model has none'}"
            )
        for operand, place in entry.items():
            if operand not in movable[name]:
                raise ConfigError(
                    f"memory of {name}: unknown key {operand!r}; {nearest(operand, movable[name])}"
                )
            chosen[name][operand] = _place(f"{name}.{operand}", place)
    outside = {
        name: tuple(operand for operand, place in places.items() if place == EXTERNAL)
        for name, places in chosen.items()
    }
    _check_alike(mg, outside)
    return MemoryPort.parse(options), {name: item for name, item in outside.items() if item}, styles


def _check_alike(mg: MaseGraph, outside: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse layers on the same hardware whose constants lie at different places."""
    for nodes in {nodes for nodes in twins_of(mg).values() if len(nodes) > 1}:
        places = {outside.get(node.name, ()) for node in nodes}
        if len(places) > 1:
            names = ", ".join(node.name for node in nodes)
            raise ConfigError(
                f"memory: {names} run on the same hardware, and their constants lie at different "
                "places; give all of them the same"
            )


def split_styles(parallelism: P, memory: Memory) -> tuple[P, Memory]:
    """Return a parallelism without the styles of memories that its nodes name, and a memory with.

    A style that the memory names itself stays.
    """
    if not isinstance(parallelism, Mapping):
        return parallelism, memory
    tables = {key: entry for key, entry in parallelism.items() if isinstance(entry, Mapping)}
    styles = {key: entry[NODE_STYLE] for key, entry in tables.items() if NODE_STYLE in entry}
    if not styles:
        return parallelism, memory
    rest = {
        key: {name: item for name, item in entry.items() if name != NODE_STYLE}
        if key in styles
        else entry
        for key, entry in parallelism.items()
    }
    named: Record = {"default": memory}
    if isinstance(memory, Mapping):
        named = dict(memory)
    for key, style in styles.items():
        named[key] = {STYLE: style, **named.get(key, {})}
    return cast("P", rest), named


def _style(what: str, value: object) -> str:
    check_choice(f"memory: {what}", value, STYLES)
    return str(value)


def _place(what: str, value: object) -> str:
    check_choice(f"memory: {what}", value, PLACES)
    return str(value)


def _movable(mg: MaseGraph) -> dict[str, tuple[str, ...]]:
    """Return the constant operands that may come from outside, by node."""
    found = {}
    for node in mg.nodes:
        if node.op == "call_function":
            call = mg.call(node)
            repeats = Weighted.of(call.operator).repeats(call)
            if repeats:
                found[node.name] = tuple(repeats)
    return found
