"""The space of number formats of a graph: what may be chosen, and configurations of choices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from torch.fx import Node

from mase_hw._kinds import Table
from mase_hw.errors import ConfigError, FormatError
from mase_hw.formats import DEFAULT_FORMAT, Format, family_of, formats
from mase_hw.graph.losses import loss_nodes
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, keeps_format, shares_format, stream_operands
from mase_hw.ops import Numeric, Operator, Weighted, operators
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

# Widths of the uniform points of a front, and that of nodes that have no hardware for a format.
POINTS, WIDE = (8, 12, 16), 16
NARROW, BLOCK_ROW = 8, 16
WORDS = ("data_in", "weight", "bias")


@dataclass(frozen=True)
class Option:
    """One format of a tensor.

    Attributes:
        fields: as a configuration has them, `name` among them.
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
        word: its name in a configuration.
        options: the formats to try.
    """

    node: Node
    name: str
    word: str
    options: tuple[Option, ...]


def operands_of(mg: MaseGraph, families: Collection[str] | None = None) -> list[Operand]:
    """Return the tensors whose format is chosen, in the order of the graph.

    Whole numbers, formats that operators choose themselves, and nodes that keep a format are not
    among them.

    The graph is canonical, with observed ranges and no formats. Families are names of the formats
    to try; all that list choices without.

    Raises:
        ConfigError: for a name that is none of them.
    """
    tried = {
        name: cls
        for name, cls in formats().items()
        if cls.choices(1) or cls.choices(1, 0) or cls.choices(16)
    }
    for name in sorted(set(families or ()) - tried.keys()):
        raise ConfigError(f"formats: {name!r} is not tried; allowed: {', '.join(tried)}")
    classes = [cls for name, cls in tried.items() if families is None or name in families]
    whole, leaving = whole_formats(mg, loss_nodes(mg)), set()
    for node in mg.outputs:
        while node.op == "call_function" and keeps_format(node) and stream_operands(node):
            node = stream_operands(node)[0][1]
        leaving.add(node)
    operands: list[Operand] = []
    for node in entries_for(mg):
        if node in whole:
            continue
        if shares_format(node):
            operands += _operand(mg, node, "data_out_0", SHARED[0], classes)
            continue
        call = mg.call(node)
        for name in call.operands:
            if Numeric.of(call.operator).operand_format(call, name) is None:
                operands += _operand(mg, node, name, name, classes)
        if node in leaving:
            operands += _operand(mg, node, "data_out_0", RESULT, classes)
    return operands


def entries_for(mg: MaseGraph) -> list[Node]:
    """Return the nodes that a chosen configuration has an entry for."""
    return [node for node in configurable(mg) if not keeps_format(node)]


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
    block = Numeric.of(call.operator).block_axis(name)
    block = -1 if block is None else block
    row = spec.shape[block] if -block <= len(spec.shape) and len(spec.shape) else 1
    words = SHARED if word == SHARED[0] else (*words_for(name), word)
    options = []
    for cls in tried:
        if cls.name not in call.operator.formats or family_of(cls) is None:
            continue
        for choice in cls.choices(row, axis):
            keys = {"name": cls.name, **choice}
            entry = {"name": DEFAULT_FORMAT} | {f"{word}_{key}": v for key, v in keys.items()}
            entry[f"{word}_{LEAST_ERROR}"] = name in call.constants
            try:
                options.append(Option(keys, fitted_format(mg, node, name, words, entry)))
            except FormatError:
                continue
    if options:
        yield Operand(node, name, word, tuple(options))


def operator_of(node: Node) -> Operator:
    """Return the operator of a node that has one."""
    return operators()[str(common(node).operator)]


def is_real_result(node: Node) -> bool:
    """Return true for a node that computes real numbers."""
    result = common(node).results.get("data_out_0")
    return result is not None and is_real(result.dtype)


def configuration(
    mg: MaseGraph, operands: Sequence[Operand], options: Sequence[int], *, opened: bool = False
) -> dict[str, object]:
    """Return the configuration, by name of the node, of one option for each operand.

    Options are places among those of each operand. Fields that a constant decides stay open, those
    fitted to observed values only where `opened`.
    """
    chosen: dict[Node, dict[str, Option]] = defaultdict(dict)
    for operand, number in zip(operands, options, strict=True):
        chosen[operand.node][operand.word] = operand.options[number]
    config: dict[str, object] = {"by": ["name"]}
    for node in entries_for(mg):
        picked = chosen.get(node, {})
        names = [option.number_format.name for option in picked.values()]
        family = max(dict.fromkeys(names), key=names.count, default=DEFAULT_FORMAT)
        entry: dict[str, object] = {"name": family}
        constants = mg.call(node).constants
        for word, option in picked.items():
            number_format = option.number_format
            if number_format.name != family:
                entry[f"{word}_name"] = number_format.name
            if word in constants and "frac_width" in number_format.fitted:
                entry[f"{word}_{LEAST_ERROR}"] = True
            values = _explicit(option, opened or word in constants)
            entry |= {f"{word}_{key}": value for key, value in values.items()}
        config[node.name] = {"config": entry}
    return config


def _explicit(option: Option, opened: bool) -> dict[str, object]:
    number_format = option.number_format
    usual = {item.name: item.default for item in fields(number_format)}
    values = {key: value for key, value in number_format.to_dict().items() if key in usual}
    kept = option.fields.keys() - {"name"}
    if opened:
        values = {key: value for key, value in values.items() if key not in number_format.fitted}
    else:
        kept |= set(number_format.fitted)
    return {key: value for key, value in values.items() if key in kept or value != usual[key]}


def uniform(mg: MaseGraph, wanted: Mapping[str, object]) -> dict[str, object]:
    """Return the configuration of one format, with `name`, wherever there is hardware for it."""

    def entry(table: Mapping[str, object]) -> dict[str, object]:
        rest = {key: value for key, value in table.items() if key != "name"}
        words = {f"{word}_{key}": value for word in WORDS for key, value in rest.items()}
        return {"config": {"name": table["name"], **words}}

    wide = entry({"name": DEFAULT_FORMAT, "width": WIDE})
    return {"by": ["name"]} | {
        node.name: entry(wanted) if wanted["name"] in operator_of(node).formats else wide
        for node in entries_for(mg)
    }


def uniform_points(tried: Collection[str]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield names and fields of uniform formats: the default's widths, and one of each other."""
    for width in POINTS:
        yield f"{DEFAULT_FORMAT} {width}", {"name": DEFAULT_FORMAT, "width": width}
    for name, cls in formats().items():
        if name == DEFAULT_FORMAT or name not in tried:
            continue
        for choice in cls.choices(BLOCK_ROW):
            if choice.get("width", NARROW) == NARROW:
                label = f"{name} {choice['width']}" if "width" in choice else name
                yield label, {"name": name, **choice}
