"""The tensors of a graph whose format a configuration may choose, and the formats to try."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from torch.fx import Node

from mase_hw._kinds import Table
from mase_hw.errors import ConfigError, FormatError
from mase_hw.formats import DEFAULT_FORMAT, Format, family_of, formats
from mase_hw.graph.losses import loss_nodes
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.graph.streams import stream_operands
from mase_hw.ops import Numeric, Operator, Weighted, operators
from mase_hw.passes.formats.edges import keeps_format, shares_format
from mase_hw.passes.formats.expected_agreement import is_real
from mase_hw.passes.formats.quantize import (
    LEAST_ERROR,
    RESULT,
    SHARED,
    configurable,
    fitted_format,
    words_for,
)
from mase_hw.passes.formats.whole_numbers import whole_formats


@dataclass(frozen=True)
class Option:
    """One format of a tensor.

    Attributes:
        fields: what a configuration says, `name` among them.
        number_format: that, fitted to the values.
    """

    fields: Table
    number_format: Format

    @property
    def kind(self) -> tuple[tuple[str, object], ...]:
        """The fields that hardware costs follow from."""
        return tuple(self.fields.items())


@dataclass(frozen=True)
class Operand:
    """A tensor whose format is chosen.

    Attributes:
        node: whose it is.
        name: the operand, or `data_out_0` of the result.
        word: by what a configuration calls it.
        options: the formats to try.
    """

    node: Node
    name: str
    word: str
    options: tuple[Option, ...]


def operands_of(mg: MaseGraph, families: Collection[str] | None = None) -> list[Operand]:
    """Return the tensors whose format is chosen, in the order of the graph.

    Whole numbers, what operators choose themselves, and nodes that keep a format are not.

    Args:
        mg: a canonical graph with observed ranges and no formats.
        families: names of the formats to try; all that know what to try without.

    Raises:
        ConfigError: for a name that is none of them.
    """
    tried = _families(families)
    whole = whole_formats(mg, loss_nodes(mg))
    leaving = _leaving(mg)
    operands: list[Operand] = []
    for node in entries_for(mg):
        if node in whole:
            continue
        operands += _of_node(mg, node, tried)
        if node in leaving and not shares_format(node):
            operands += _operand(mg, node, "data_out_0", RESULT, tried)
    return operands


def entries_for(mg: MaseGraph) -> list[Node]:
    """Return the nodes that a chosen configuration has an entry for."""
    return [node for node in configurable(mg) if not keeps_format(node)]


def _families(names: Collection[str] | None) -> list[type[Format]]:
    tried = {
        name: cls
        for name, cls in formats().items()
        if cls.choices(1) or cls.choices(1, 0) or cls.choices(16)
    }
    unknown = sorted(set(names or ()) - tried.keys())
    if unknown:
        raise ConfigError(f"formats: {unknown[0]!r} is not tried; allowed: {', '.join(tried)}")
    return [cls for name, cls in tried.items() if names is None or name in names]


def _leaving(mg: MaseGraph) -> set[Node]:
    leaving = set()
    for node in mg.outputs:
        while node.op == "call_function" and keeps_format(node) and stream_operands(node):
            node = stream_operands(node)[0][1]
        leaving.add(node)
    return leaving


def _of_node(mg: MaseGraph, node: Node, tried: Sequence[type[Format]]) -> Iterator[Operand]:
    if shares_format(node):
        yield from _operand(mg, node, "data_out_0", SHARED[0], tried)
        return
    call = mg.call(node)
    for name in call.operands:
        if Numeric.of(call.operator).operand_format(call, name) is None:
            yield from _operand(mg, node, name, name, tried)


def _operand(
    mg: MaseGraph, node: Node, name: str, word: str, tried: Sequence[type[Format]]
) -> Iterator[Operand]:
    tensors = common(node)
    spec = {**tensors.operands, **tensors.results}[name]
    if not is_real(spec.dtype):
        return
    call = mg.call(node)
    rows = name in call.constants and len(spec.shape) > 1
    axis = Weighted.of(call.operator).result_axis if rows else None
    row = _row(call.operator, name, spec.shape)
    words = SHARED if word == SHARED[0] else (*words_for(name), word)
    options = []
    for cls in tried:
        if cls.name not in call.operator.formats or family_of(cls) is None:
            continue
        for fields in cls.choices(row, axis):
            keys = {"name": cls.name, **fields}
            entry = {"name": DEFAULT_FORMAT} | {f"{word}_{key}": v for key, v in keys.items()}
            entry[f"{word}_{LEAST_ERROR}"] = name in call.constants
            try:
                number_format = fitted_format(mg, node, name, words, entry)
            except FormatError:
                continue
            options.append(Option(keys, number_format))
    if options:
        yield Operand(node, name, word, tuple(options))


def _row(operator: Operator, name: str, shape: Sequence[int]) -> int:
    axis = Numeric.of(operator).block_axis(name)
    axis = -1 if axis is None else axis
    return shape[axis] if -axis <= len(shape) and len(shape) else 1


def operator_of(node: Node) -> Operator:
    """Return the operator of a node that has one."""
    return operators()[str(common(node).operator)]


def is_real_result(node: Node) -> bool:
    """Return true for a node that computes real numbers."""
    result = common(node).results.get("data_out_0")
    return result is not None and is_real(result.dtype)
