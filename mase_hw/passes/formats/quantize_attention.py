"""Number formats of keys, values and rotary tables of attention.

A decoder keeps the keys and values of all tokens before the present one, and reads all of them for
each new token: their bits decide its memory. They are rounded where attention takes them, behind
the rotation by position. The tables of that rotation (Su et al., "RoFormer", 2021,
arXiv:2104.09864) are constants, which are replaced by the nearest numbers of their format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import nn
from torch.fx import Node

from mase_hw._kinds import Record, Table
from mase_hw.errors import ConfigError
from mase_hw.formats import Format, format_class
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import aten_arguments, common, insert_after, refresh_output
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.formats.edges import ROLE
from mase_hw.passes.formats.quantize import observed_range
from mase_hw.registry import nearest

QUERY, KEY, VALUE = "query", "key", "value"
# How far from attention its rotary tables may be.
REACH = 10
# Dimensions of a table: batch and heads, positions, and features of a head.
TABLE_DIMENSIONS = (3, 4)


@graph_pass
def quantize_attention_transform_pass(
    mg: MaseGraph,
    *,
    key: Mapping[str, object] | None = None,
    value: Mapping[str, object] | None = None,
    rotary: Mapping[str, object] | None = None,
    nodes: Sequence[str] | None = None,
    data: Iterable[object] | None = None,
) -> Result:
    """Give keys, values and rotary tables of fused attention number formats.

    Args:
        mg: a graph with common metadata.
        key: a format, `{"name": ..., field: value}`, whose open fields are fitted.
        value: likewise.
        rotary: likewise, of the tables.
        nodes: names of attention nodes, all when not given.
        data: batches that show the ranges, the example inputs when not given.

    Returns:
        A new graph, and the formats by node and operand: `key`, `value`, and `rotary` by table.

    Raises:
        ConfigError: for an argument that is not legal, or a graph without fused attention.
        FormatError: for a value that the format does not allow.
    """
    if not (key or value or rotary):
        raise ConfigError("attention: give a format for key, value or rotary")
    mg = mg.copy()
    chosen = _attention(mg, nodes)
    mg, _ = add_software_metadata_analysis_pass(mg, {} if data is None else {"data": data})
    report: Record = {KEY: {}, VALUE: {}, "rotary": {}}
    for table in _tables(mg, chosen) if rotary else ():
        report["rotary"][table.name] = str(_round_table(mg, table, rotary or {}))
    for node in chosen:
        for operand, entry in ((KEY, key), (VALUE, value)):
            if entry:
                report[operand][node.name] = str(_round_operand(mg, node, operand, entry))
    refresh_output(mg.model)
    mg.recompile()
    return mg, report


def _attention(mg: MaseGraph, names: Sequence[str] | None) -> list[Node]:
    attention = [
        node
        for node in mg.nodes
        if node.op == "call_function" and {QUERY, KEY, VALUE} <= set(aten_arguments(node))
    ]
    if not attention:
        raise ConfigError(
            f"{mg.name} has no fused attention; capture the model with attn_implementation='sdpa'"
        )
    if names is None:
        return attention
    by_name = {node.name: node for node in attention}
    for name in names:
        if name not in by_name:
            raise ConfigError(f"attention: {name!r} is none; {nearest(name, by_name)}")
    return [by_name[name] for name in names]


def _fitted(entry: Table, node: Node, result: str) -> Format:
    fields = dict(entry)
    cls = format_class(str(fields.pop("name", "")))
    return cls.fit(*observed_range(node, result), **fields)


def _round_operand(mg: MaseGraph, node: Node, operand: str, entry: Mapping[str, object]) -> Format:
    """Insert a cast behind what an operand of attention is computed by."""
    producer = aten_arguments(node)[operand]
    spec = common(producer).results["data_out_0"]
    number_format = _fitted(entry, producer, "data_out_0")
    result = spec.with_format(number_format)
    cast = insert_after(producer, ROLE, spec, result)
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
