"""Number formats of keys, values and rotary tables of attention.

A decoder keeps the keys and values of all tokens before the present one, and reads all of them for
each new token: their bits decide its memory. They are rounded where attention takes them, behind
the rotation by position. The tables of that rotation (Su et al., "RoFormer", 2021,
arXiv:2104.09864) are constants, which are replaced by the nearest numbers of their format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from mase_hw.errors import ConfigError
from mase_hw.formats import Format, format_class
from mase_hw.graph.calls import aten_arguments
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.graph.streams import refresh_output
from mase_hw.passes._insert import insert_after
from mase_hw.passes._pass import Result
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.formats.cast import ROLE
from mase_hw.passes.formats.quantize import observed_range
from mase_hw.registry import nearest

ARGUMENTS = ("key", "value", "rotary", "nodes", "data")
QUERY, KEY, VALUE = "query", "key", "value"
# How far from attention its rotary tables may be.
REACH = 10
# Dimensions of a table: batch and heads, positions, and features of a head.
TABLE_DIMENSIONS = (3, 4)


def quantize_attention_transform_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> Result:
    """Give keys, values and rotary tables of fused attention number formats.

    Args:
        mg: a graph with common metadata.
        pass_args: `key`, `value` and `rotary`, each a format, `{"name": ..., field: value}`, whose
            open fields are fitted; `nodes`, names of attention nodes, all when not given; `data`,
            batches that show the ranges, the example inputs when not given.

    Returns:
        A new graph, and the formats by node and operand: `key`, `value`, and `rotary` by table.

    Raises:
        ConfigError: for an argument that is not legal, or a graph without fused attention.
        FormatError: for a value that the format does not allow.
    """
    given = dict(pass_args or {})
    for key in given:
        if key not in ARGUMENTS:
            raise ConfigError(f"attention has no {key!r}; {nearest(key, ARGUMENTS)}")
    if not any(given.get(key) for key in (KEY, VALUE, "rotary")):
        raise ConfigError("attention: give a format for key, value or rotary")
    mg = mg.copy()
    chosen = _attention(mg, given.get("nodes"))
    data = given.get("data")
    mg, _ = add_software_metadata_analysis_pass(mg, {} if data is None else {"data": data})
    report: dict[str, Any] = {KEY: {}, VALUE: {}, "rotary": {}}
    if given.get("rotary"):
        for table in _tables(mg, chosen):
            report["rotary"][table.name] = str(_round_table(mg, table, given["rotary"]))
    for node in chosen:
        for operand in (KEY, VALUE):
            if given.get(operand):
                found = _round_operand(mg, node, operand, given[operand])
                report[operand][node.name] = str(found)
    refresh_output(mg)
    mg.recompile()
    return mg, report


def _attention(mg: MaseGraph, names: Any) -> list[Node]:
    """Return the nodes whose operator takes a query, a key and a value."""
    found = [
        node
        for node in mg.nodes
        if node.op == "call_function" and {QUERY, KEY, VALUE} <= set(aten_arguments(node))
    ]
    if not found:
        raise ConfigError(
            f"{mg.name} has no fused attention; capture the model with attn_implementation='sdpa'"
        )
    if names is None:
        return found
    known = {node.name: node for node in found}
    for name in names:
        if name not in known:
            raise ConfigError(f"attention: {name!r} is none; {nearest(name, known)}")
    return [known[name] for name in names]


def _fitted(entry: Mapping[str, Any], node: Node, result: str) -> Format:
    fields = dict(entry)
    cls = format_class(str(fields.pop("name", "")))
    return cls.fit(*observed_range(node, result), **fields)


def _round_operand(mg: MaseGraph, node: Node, operand: str, entry: Mapping[str, object]) -> Format:
    """Insert a cast behind what an operand of attention is computed by."""
    producer = aten_arguments(node)[operand]
    spec = common(producer).results["data_out_0"]
    number_format = _fitted(entry, producer, "data_out_0")
    result = spec.with_format(number_format)
    cast = insert_after(mg, producer, ROLE, spec, result)
    node.replace_input_with(producer, cast)
    return number_format


def _tables(mg: MaseGraph, attention: list[Node]) -> Iterator[Node]:
    """Yield the constants that queries and keys are multiplied with, by position and feature."""
    seen: set[Node] = set()
    waiting = [(aten_arguments(node)[operand], 0) for node in attention for operand in (QUERY, KEY)]
    while waiting:
        node, distance = waiting.pop()
        if node in seen or distance > REACH:
            continue
        seen.add(node)
        if node.op == "get_attr":
            value = mg.constant(node)
            by_position = value.dim() in TABLE_DIMENSIONS and value.shape[-2] > 1
            if by_position and not isinstance(value, nn.Parameter) and value.is_floating_point():
                yield node
        elif node.op == "call_function":
            waiting += [(item, distance + 1) for item in node.all_input_nodes]


def _round_table(mg: MaseGraph, table: Node, entry: Mapping[str, object]) -> Format:
    fields = dict(entry)
    value = mg.constant(table)
    number_format = format_class(str(fields.pop("name", ""))).fit_values(value, **fields)
    with torch.no_grad():
        value.copy_(number_format.round_values(value))
    return number_format
