"""Give every tensor of a graph its number format, and insert casts where two formats meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._kinds import Record, Table
from mase_hw.errors import ConfigError, FormatError
from mase_hw.formats import Format, format_class, make_format
from mase_hw.graph.losses import loss_nodes
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import (
    casts,
    common,
    consumers,
    keeps_format,
    location,
    metadata,
    operator_at,
    operator_of,
    set_format,
    set_formats,
    shares_format,
    stream_operands,
    update,
)
from mase_hw.ops import Configured, Numeric, TensorSpec, operators
from mase_hw.passes._pass import Result
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.configuration import Configuration
from mase_hw.passes.formats._signs import with_sign
from mase_hw.passes.formats.edges import Offers, insert_casts_transform_pass
from mase_hw.passes.formats.losses import part_inputs
from mase_hw.passes.formats.whole_numbers import input_format, whole_formats
from mase_hw.registry import nearest

RESULT = "data_out"
# The option of operators that can give every result the code of the exact number.
EXACT = "exact"
# The key by which a constant has the fraction of least error, not that of its largest value.
LEAST_ERROR = "least_error"
# Words for the one format of a node that shares it.
SHARED = ("data_in", RESULT, "data_out_0")


def quantize_transform_pass(mg: MaseGraph, pass_args: Mapping[str, object] | None = None) -> Result:
    """Annotate formats from a configuration.

    Every key of an entry is `<operand>_<field>`: `data_in_width`, `weight_frac_width`, ...; the
    operand `data_in` means every operand that streams, `data_in_1` one of them. `name` is the
    format of all operands, `<operand>_name` of one. A fraction that is not given is fitted to the
    values: of the constant itself, or as observed on the example inputs. Without `data_out_*` a
    result takes the format that serves all its consumers (`serving_formats`), outputs of the graph
    among them, in whatever order they stand; each rounds it to its own format on its own edge. An
    output that nothing else takes has the last operator's. An operator that has no hardware for
    its consumers' formats gives a result with the fields of its own operand's format, which is
    cast. Operators that keep a format need no entry.

    A layer of the model that declares formats keeps them, unless a key selects its node. What it
    leaves open is the default's: a bias that it does not round, and a result that no other layer
    takes. Between such layers, operators that keep a format take no default.

    Args:
        mg: a graph with common metadata.
        pass_args: the configuration, see `Configuration.parse`.

    Raises:
        ConfigError: for unknown keys; the message lists the legal ones.
        FormatError: for a value that the format does not allow.
    """
    mg = mg.copy()
    nodes = [node for node in mg.nodes if node.op == "call_function"]
    config = Configuration.parse(pass_args or {}, [node.name for node in nodes])
    if not all(metadata(node).software for node in nodes):
        mg, _ = add_software_metadata_analysis_pass(mg, {})
        nodes = [node for node in mg.nodes if node.op == "call_function"]
    losses = loss_nodes(mg)
    entries, whole = entries_of(mg, config), whole_formats(mg, losses)
    for node in nodes:
        if config.own(node.name, common(node).operator) is not None:
            update(node, declared={}, exact=False, configured=True)
    for node, entry in entries.items():
        check_keys(node, entry)
        _set_operands(mg, node, entry, whole.get(node, {}))
        _check_folded(node)
    configured = {node for node, entry in entries.items() if entry.get("name") is not None}
    explicit = {
        node: fitted_format(mg, node, "data_out_0", (RESULT, "data_out_0"), entry)
        for node, entry in entries.items()
        if node in configured and mentions(entry, RESULT)
    }
    for node in configured:
        update(node, asked=node in explicit)
    # What leaves the graph has the fields of the operand's format, its fraction fitted if open.
    words = {node: words_for_result(node, entries[node], config) for node in configured}
    if config.default.get("name") is not None:
        # An input that only layout operators read.
        inputs = [node for node in mg.inputs if node not in losses]
        words |= dict.fromkeys(inputs, (("data_in", "data_in_0"), config.default))
    alone = {
        node: partial(fitted_format, mg, name="data_out_0", groups=groups, entry=entry)
        for node, (groups, entry) in words.items()
    }
    offers = Offers(mg, configured, alone)
    offers.widen_joined(configured - explicit.keys())
    explicit |= {
        node: formats["data_out_0"]
        for node, formats in whole.items()
        if node in words or any(offers.asked(node))
    }
    explicit |= {
        node: known["data_out_0"] for node in mg.inputs if (known := metadata(node).declared)
    }
    for node in mg.inputs:
        joined = input_format(node, [*offers.asked(node)])
        if joined is not None and node not in whole and node not in explicit:
            explicit[node] = joined
    for node in mg.nodes:
        if node not in losses:
            _set_result(mg, node, configured, offers, explicit)
    part_inputs(mg, losses)
    return insert_casts_transform_pass(mg, {})


def _check_folded(node: Node) -> None:
    """Raise where factors were folded into weights that now round to a few values."""
    weight = common(node).operands.get("weight")
    if not metadata(node).folded or weight is None or weight.format is None:
        return
    if metadata(node).exact and "weight" in metadata(node).declared:
        # Its scales took the factors.
        return
    if not weight.format.takes_factors(weight.format.to_dict()):
        raise ConfigError(
            f"weights of {node.name} ({location(node)}) hold the factors of a normalisation behind "
            f"it, which rounding to {weight.format} would lose; give quantize the graph that trace "
            "returned, or canonicalize(graph, config) the formats"
        )


def entries_of(mg: MaseGraph, config: Configuration) -> dict[Node, Table]:
    """Entry of every node that may have one: configured, or what it declares.

    Raises:
        ConfigError: when a configuration gives no node a format.
    """
    nodes = configurable(mg)
    own = {node: config.own(node.name, common(node).operator) for node in nodes}
    unused = config.entries and all(entry is None for entry in own.values())
    if unused and not _rounds(config.default):
        _refuse_unused(mg, config, nodes)
    declaring = {node for node in nodes if own[node] is None and metadata(node).declared}
    entries: dict[Node, Table] = {}
    for node in nodes:
        entry = own[node]
        if node in declaring:
            entry = _declared_entry(mg, node, config.default)
        elif entry is None:
            between = keeps_format(node) and (metadata(node).exact or _leads_to(node, declaring))
            entry = {"name": None} if between else config.default
        entries[node] = entry
    return entries


def _rounds(entry: Mapping[str, object]) -> bool:
    name = entry.get("name")
    return name is not None and format_class(str(name)).rounds


def _refuse_unused(mg: MaseGraph, config: Configuration, nodes: Iterable[Node]) -> None:
    kinds = sorted({str(common(node).operator) for node in nodes})
    names = [node.name for node in nodes]
    keys = {"type": kinds, "name": names, "regex_name": names}
    legal = "; ".join(f"by {item}: {', '.join(keys[item]) or 'nothing'}" for item in config.by)
    raise ConfigError(
        f"configuration: {', '.join(config.entries)} selects nothing in {mg.name}, and there is no "
        f"default, so that nothing has a number format; there is {legal}"
    )


def configurable(mg: MaseGraph) -> list[Node]:
    """The nodes that a configuration may give formats: none of a loss, see `loss_nodes`."""
    losses = loss_nodes(mg)
    nodes = [node for node in mg.nodes if node.op == "call_function" and node not in losses]
    return [node for node in nodes if casts(node)]


def _leads_to(node: Node, declaring: set[Node]) -> bool:
    """True when layers that declare formats alone take a result, as it is."""
    users = [user for user, _ in consumers(node)]
    return bool(users) and all(
        user in declaring or (keeps_format(user) and _leads_to(user, declaring)) for user in users
    )


def _declared_entry(mg: MaseGraph, node: Node, default: Mapping[str, object]) -> Record:
    """Entry of a node that declares formats; other operands take the default's.

    Where its operator has no hardware for the two together, they take the fields of the first.
    """
    declared = metadata(node).declared
    entry = entry_of(declared)
    if shares_format(node):
        return entry
    if metadata(node).exact and EXACT in _options(node):
        entry[EXACT] = 1
    for name in common(node).operands:
        if name in declared or default.get("name") is None:
            continue
        call = mg.call(node)
        fitted = fitted_format(mg, node, name, words_for(name), default)
        every = dict.fromkeys([*call.operands, *call.results], fitted)
        operands = {
            other: fitted_format(mg, node, other, words_for(other), entry)
            for other in declared
            if other in call.operands
        }
        if not call.operator.problems(call.with_formats({**every, **operands})):
            entry |= _words({name: fitted}, entry["name"])
    return entry


def words_for_result(
    node: Node, entry: Mapping[str, object], config: Configuration
) -> tuple[tuple[str, ...], Table]:
    """Words, and the entry, of a result that no consumer asks a format for."""
    if not metadata(node).declared or config.own(node.name, common(node).operator) is not None:
        return ("data_in", "data_in_0"), entry
    if config.default.get("name") is not None:
        return ("data_in", "data_in_0"), config.default
    # What the layer's format hands on, fitted: its operands' ranges are not the result's.
    return (), entry


def entry_of(formats: Mapping[str, Format]) -> Record:
    """Entry of a node in which every field of every operand is given."""
    if not formats:
        return {}
    family = next(iter(formats.values())).name
    return {"name": family, **_words(formats, family)}


def _words(formats: Mapping[str, Format], family: str) -> Record:
    entry: Record = {}
    for operand, number_format in formats.items():
        fields = number_format.to_dict()
        name = fields.pop("name")
        if name != family:
            entry[f"{operand}_name"] = name
        entry |= {f"{operand}_{key}": value for key, value in fields.items() if value is not None}
    return entry


def mentions(entry: Mapping[str, object], operand: str) -> bool:
    """True when an entry gives a field of an operand."""
    return any(key.startswith(f"{operand}_") for key in entry)


def words_for(name: str) -> tuple[str, ...]:
    """Words that a configuration may use for an operand, the general one first."""
    return ("data_in", name) if name.startswith("data_in_") else (name,)


def check_keys(node: Node, entry: Mapping[str, object]) -> None:
    """Raise ConfigError for a key that the node's operands or format do not have."""
    if entry.get("name") is None:
        if lost := [key for key, value in entry.items() if key != "name" and value is not None]:
            raise ConfigError(
                f"configuration of {node.name} ({common(node).operator}): {lost[0]} is given, but "
                "no name of a format, which says what it is of"
            )
        return
    cls = format_class(str(entry["name"]))
    words: set[str] = set()
    if not shares_format(node):
        words = {word for name in common(node).operands for word in words_for(name)}
    # An entry by type also serves nodes without the optional operands.
    words |= {"data_in", "weight", "bias", RESULT, "data_out_0"}
    legal = {"name"}
    for word in words:
        other = entry.get(f"{word}_name")
        fields = (format_class(str(other)) if other else cls).field_names()
        legal |= {f"{word}_{field}" for field in (*fields, "name", LEAST_ERROR)}
    options = _options(node)
    # An entry by default also serves nodes without the option.
    legal |= {key for operator in operators().values() for key in Configured.of(operator).options}
    for key, value in entry.items():
        if key in options and (type(value) is not int or value not in options[key]):
            raise ConfigError(
                f"configuration of {node.name} ({common(node).operator}): {key} is {value!r}; "
                f"allowed: {options[key][0]} to {options[key][-1]}"
            )
        if key not in legal:
            raise ConfigError(
                f"configuration of {node.name} ({common(node).operator}): unknown key {key!r}; "
                f"{nearest(key, legal)}"
            )


def open_format(
    mg: MaseGraph, node: Node, name: str, groups: tuple[str, ...], entry: Mapping[str, object]
) -> tuple[type[Format], Record]:
    """Format class of an operand and the fields that the configuration gives it."""
    family, fields = str(entry["name"]), Record()
    for group in groups:
        for key, value in entry.items():
            if key == f"{group}_name":
                family = str(value)
            elif key.startswith(f"{group}_"):
                fields[key.removeprefix(f"{group}_")] = value
    cls = format_class(family)
    fields = {key: value for key, value in fields.items() if key in cls.field_names()}
    if not fields and not name.startswith("data_in"):
        taken = fitted_format(mg, node, "data_in_0", ("data_in", "data_in_0"), entry)
        fields = {key: item for key, item in taken.to_dict().items() if key in cls.inherited}
    if "axis" in cls.field_names() and "axis" not in fields and node.op == "call_function":
        fields["axis"] = _block_axis(node, name, cls)
    return cls, fields


def _block_axis(node: Node, name: str, cls: type[Format]) -> int:
    """Dimension of blocks that an operator asks for, or those before and after it."""
    operator = operator_of(node)
    axis = Numeric.of(operator).block_axis(name) if cls.name in operator.formats else None
    if axis is None:
        around = (_axis_around(node, cls, step, {node}) for step in (_before, consumers))
        axis = next((item for item in around if item is not None), -1)
    known = common(node)
    rank = len({**known.operands, **known.results}[name].shape)
    return axis if -axis <= max(rank, 1) else -1


def _axis_around(
    node: Node,
    cls: type[Format],
    step: Callable[[Node], Iterable[tuple[Node, str]]],
    seen: set[Node],
) -> int | None:
    """Dimension that the nearest operator asks for which has hardware for a format."""
    for other, name in step(node):
        operator = None if other in seen else operator_at(other)
        seen.add(other)
        if operator is None or cls.name not in operator.formats:
            continue
        axis = Numeric.of(operator).block_axis(name)
        axis = _axis_around(other, cls, step, seen) if axis is None else axis
        if axis is not None:
            return axis
    return None


def _before(node: Node) -> Iterable[tuple[Node, str]]:
    return [(producer, "data_out_0") for _, producer in stream_operands(node)]


def fitted_format(
    mg: MaseGraph, node: Node, name: str, groups: tuple[str, ...], entry: Mapping[str, object]
) -> Format:
    """Format of a tensor, what an entry leaves open fitted to what was observed of it.

    Args:
        mg: a graph with common and software metadata.
        node: the node.
        name: its operand or result.
        groups: the words of the entry that mean it, see `words_for`.
        entry: the entry.
    """
    declared = metadata(node).declared if metadata(node).exact else {}
    if name in declared:
        return declared[name]
    cls, fields = open_format(mg, node, name, groups, entry)
    said = said_of_sign(node, name, groups, entry)
    try:
        constant = _constant(mg, node, name)
        if constant is not None:
            least = float(constant.min()) if constant.numel() else 0.0
            number = cls.fit_values(constant, **with_sign(cls, fields, least, said))
            return rounded_best(number, constant, fields, groups, entry)
        low, high = observed_range(node, name)
        return cls.fit(low, high, **with_sign(cls, fields, low, said))
    except FormatError as error:
        raise FormatError(f"{name} of {node.name} ({location(node)}): {error}") from error


def rounded_best(
    number_format: Format, values: Tensor, fields: Table, groups: tuple[str, ...], entry: Table
) -> Format:
    """Format of constants, of the least error where an entry asks for that."""
    asked = any(entry.get(f"{word}_{LEAST_ERROR}") for word in groups)
    fits = asked and {*number_format.fitted} - {*fields}
    return number_format.of_least_error(values) if fits else number_format


def said_of_sign(
    node: Node, name: str, groups: tuple[str, ...], entry: Mapping[str, object]
) -> str | None:
    """Word by which an entry says whether a tensor has a sign.

    None where another tensor's sign is taken, as a result takes that of the operand.
    """
    other = node.op == "call_function" and name == "data_out_0" and groups[:1] == ("data_in",)
    if other and not shares_format(node):
        return None
    return next((word for word in groups if f"{word}_signed" in entry), None)


def _constant(mg: MaseGraph, node: Node, name: str) -> Tensor | None:
    """Values of a constant operand, with those of layers that share its hardware."""
    if node.op != "call_function":
        return None
    constant = mg.call(node).constants.get(name)
    if constant is None or not metadata(node).alike:
        return constant
    every = [mg.call(mg.node(item)).constants[name] for item in metadata(node).alike]
    return torch.cat(every) if constant.dim() else torch.stack(every)


def observed_range(node: Node, name: str) -> tuple[float, float]:
    """Least and largest value of an operand or a result on the example inputs.

    Raises:
        FormatError: when they are not finite.
    """
    software = metadata(node).software
    if software is None or name not in software.ranges:
        return -1.0, 1.0
    ends = software.ranges[name].minimum, software.ranges[name].maximum
    if not all(map(math.isfinite, ends)):
        raise FormatError(
            "its values on the examples are not all finite numbers, so no format can be fitted "
            "to them; give other inputs, or a configuration with every frac_width"
        )
    return ends


def _set_operands(mg: MaseGraph, node: Node, entry: Table, whole: Mapping[str, Format]) -> None:
    if entry.get("name") is None:
        return
    call, formats = mg.call(node), dict(whole)
    if not whole and shares_format(node):
        one = fitted_format(mg, node, "data_out_0", SHARED, entry)
        formats = dict.fromkeys(call.operands, one)
    elif not whole:
        for name, spec in call.operands.items():
            if _is_value(name, spec):
                own = Numeric.of(call.operator).operand_format(call, name)
                formats[name] = own or fitted_format(mg, node, name, words_for(name), entry)
    set_formats(node, formats)
    options = {key: value for key, value in entry.items() if key in _options(node)}
    update(node, common=replace(common(node), options=options))


def _is_value(name: str, spec: TensorSpec) -> bool:
    """True for an operand that is a value to compute with, not where rows lie."""
    return name.startswith("data_in_") or spec.dtype.startswith(("float", "bfloat"))


def _options(node: Node) -> Mapping[str, range]:
    return Configured.of(operator_at(node)).options


def _for_rank(number: Format | None, rank: int) -> Format | None:
    """Format whose blocks lie along a dimension that a tensor of the rank has."""
    if number is None or "axis" not in number.field_names():
        return number
    fields = number.to_dict()
    legal = -max(rank, 1) <= fields["axis"] < max(rank, 1)
    return number if legal else make_format({**fields, "axis": -1})


def _set_result(
    mg: MaseGraph,
    node: Node,
    configured: set[Node],
    offers: Offers,
    explicit: Mapping[Node, Format],
) -> None:
    if node.op not in ("placeholder", "call_function"):
        return
    known, operator = common(node), operator_at(node)
    own = None if operator is None else Numeric.of(operator).result_format(mg.call(node))
    if own is not None:
        result: Format | None = own
        if not casts(node):
            taken = common(stream_operands(node)[0][1]).results["data_out_0"].format
            set_formats(node, dict.fromkeys(known.operands, taken))
    elif node in configured and shares_format(node):
        result = known.operands["data_in_0"].format
    elif node.op == "placeholder" or node in configured:
        result = explicit.get(node) or offers.of(node)
    elif keeps_format(node) and stream_operands(node):
        kept = offers.kept(node)
        set_format(node, kept)
        result = _for_rank(kept, len(known.results["data_out_0"].shape))
    else:
        return
    set_formats(node, {}, dict.fromkeys(known.results, result))
