"""From chosen options to a configuration, and configurations of one format everywhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from torch.fx import Node

from mase_hw.formats import DEFAULT_FORMAT, formats
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.passes.formats.quantize import LEAST_ERROR
from mase_hw.precision.operands import Operand, Option, entries_for, operator_of

# Widths of the uniform points of a front, and that of nodes that have no hardware for a format.
POINTS, WIDE = (8, 12, 16), 16
NARROW = 8
BLOCK_ROW = 16
WORDS = ("data_in", "weight", "bias")


def configuration(
    mg: MaseGraph, operands: Sequence[Operand], options: Sequence[int], *, opened: bool = False
) -> dict[str, object]:
    """Return the configuration, by name of the node, of an option of every operand.

    Fields fitted to observed values are explicit; those that a constant decides stay open.

    Args:
        mg: the graph.
        operands: what was chosen for.
        options: by operand the place of its option.
        opened: whether what is fitted to observed values stays open, too.
    """
    chosen: dict[Node, dict[str, Option]] = defaultdict(dict)
    for operand, number in zip(operands, options, strict=True):
        chosen[operand.node][operand.word] = operand.options[number]
    config: dict[str, object] = {"by": ["name"]}
    for node in entries_for(mg):
        entry: dict[str, object] = {"name": _family(chosen.get(node, {}))}
        constants = mg.call(node).constants
        for word, option in chosen.get(node, {}).items():
            number_format = option.number_format
            if number_format.name != entry["name"]:
                entry[f"{word}_name"] = number_format.name
            if word in constants and "frac_width" in number_format.fitted:
                entry[f"{word}_{LEAST_ERROR}"] = True
            entry |= {
                f"{word}_{key}": value
                for key, value in _explicit(option, opened or word in constants).items()
            }
        config[node.name] = {"config": entry}
    return config


def _explicit(option: Option, opened: bool) -> dict[str, object]:
    number_format = option.number_format
    asked = {key: value for key, value in option.fields.items() if key != "name"}
    usual = {item.name: item.default for item in fields(number_format)}
    values = {key: value for key, value in number_format.to_dict().items() if key in usual}
    if opened:
        values = {key: value for key, value in values.items() if key not in number_format.fitted}
    kept = asked.keys() | (() if opened else number_format.fitted)
    return {key: value for key, value in values.items() if key in kept or value != usual[key]}


def _family(chosen: Mapping[str, Option]) -> str:
    names = [option.number_format.name for option in chosen.values()]
    return max(dict.fromkeys(names), key=names.count, default=DEFAULT_FORMAT)


def uniform(mg: MaseGraph, wanted: Mapping[str, object]) -> dict[str, object]:
    """Return the configuration of one format wherever there is hardware for it.

    Args:
        mg: a graph.
        wanted: fields of the format, `name` among them.
    """
    wide = _entry({"name": DEFAULT_FORMAT, "width": WIDE})
    config: dict[str, object] = {"by": ["name"]}
    for node in entries_for(mg):
        has = wanted["name"] in operator_of(node).formats
        config[node.name] = {"config": _entry(wanted) if has else wide}
    return config


def _entry(wanted: Mapping[str, object]) -> dict[str, object]:
    rest = {key: value for key, value in wanted.items() if key != "name"}
    return {
        "name": wanted["name"],
        **{f"{word}_{key}": value for word in WORDS for key, value in rest.items()},
    }


def uniform_points(tried: Sequence[str]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield names and fields of uniform formats: the default's widths, and one of each other.

    Args:
        tried: names of the formats that are chosen among.
    """
    for width in POINTS:
        yield f"{DEFAULT_FORMAT} {width}", {"name": DEFAULT_FORMAT, "width": width}
    for name, cls in formats().items():
        if name == DEFAULT_FORMAT or name not in tried:
            continue
        for choice in cls.choices(BLOCK_ROW):
            if choice.get("width", NARROW) == NARROW:
                label = f"{name} {choice['width']}" if "width" in choice else name
                yield label, {"name": name, **choice}
