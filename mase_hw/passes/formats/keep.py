"""`keep_formats_transform_pass`: what a model rounds itself becomes the formats of its edges."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._aten import aten, overload
from mase_hw._kinds import Record, Table
from mase_hw.arithmetic.exact_formats import (
    common_grid,
    exact_constant,
    finer,
    has_scale,
    has_steps,
    is_binary,
    most_scale_bits,
    reaching,
    shortened,
    whole_numbers,
)
from mase_hw.arithmetic.requantize import scale_bits, scales
from mase_hw.errors import UnsupportedError
from mase_hw.formats import DEFAULT_FORMAT, SCALED, Format, names_in
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import CommonMetadata
from mase_hw.graph.nodes import (
    aten_arguments,
    common,
    erase_node,
    free_name,
    insert_after,
    location,
    metadata,
    operator_at,
    operator_of,
    read_constant,
    stream_operands,
    tensor_arguments,
    update,
)
from mase_hw.graph.rebuild import reached
from mase_hw.graph.rounded import exact_format, is_rounding, rounded_format, with_factors
from mase_hw.ops import (
    Affine,
    Call,
    Choosing,
    Elementwise,
    Exact,
    Multiplying,
    Numeric,
    Operator,
    Rescaled,
    Stateful,
    Summing,
    Weighted,
    carried,
    operator_for,
)
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical._rewrite import rewrite
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.formats._between import MOST_TRIED_BITS, compared_formats, format_between
from mase_hw.passes.formats._comparisons import ROLE as COMPARISON
from mase_hw.passes.formats._comparisons import absorb_scales

STEPS = "steps"
_logger = logging.getLogger(__name__)
# By the dimensions of what they take.
CONVOLUTIONS = {3: aten.conv1d.default, 4: aten.conv2d.default}


def _inputs(node: Node) -> list[Node]:
    return node.all_input_nodes


# From a node to those before it, and behind it.
_WAYS: tuple[Callable[[Node], Iterable[Node]], ...] = (_inputs, lambda node: node.users)
# Codes that are tried one by one.
MAX_WIDTH_BITS = 16
# Bits of a step of the model's that what is approximated has before it is rounded to them.
FINER_BITS = (16, 14, 12, 10, 8)
ENDS = torch.tensor([-math.inf, math.inf])


@graph_pass
def keep_formats_transform_pass(mg: MaseGraph) -> Result:
    """Take the roundings of a model that somebody else has quantised as formats of its tensors.

    A rounding goes up past nodes that move or choose elements, which it does not change; those that
    do nothing to codes then leave the graph. Behind a layer it becomes the format of the layer's
    result, behind an input that of the input, behind a rounding a cast. What takes rounded streams
    has their formats, and computes the codes of the exact numbers (`MaseMetadata.exact`).

    Args:
        mg: a canonical graph with common metadata.

    Returns:
        The graph, and `{"kept": names of the nodes with such formats}`.

    What is rounded and used as it is, or rounded in two ways, is computed once for each of them.

    Raises:
        UnsupportedError: where that is an input, which has one format.
    """
    if not any(is_rounding(node) or metadata(node).exact for node in mg.nodes):
        return mg, {"kept": []}
    mg = absorb_scales(_with_affine_spelled(mg.copy()))
    while any(_hoist(mg, node) for node in mg.nodes if is_rounding(node)) or any(
        _split(mg, node) for node in mg.nodes
    ):
        pass
    formats = {node: number for node in mg.inputs if (number := _format_of_port(node)) is not None}
    for node in mg.nodes:
        operator = operator_at(node)
        absorbs = operator is not None and operator.casts and not _commutes(operator)
        number = _asked(node) if absorbs and not is_rounding(node) else None
        if number is not None and _may_give(mg, node, number, formats):
            formats[node] = number
    for node, number in formats.items():
        update(node, exact=True)
        if node.op == "placeholder":
            update(node, declared={"data_out_0": number})
        for rounding in list(node.users):
            _join(mg, node, rounding)
    declared = _Declared(mg, formats)
    changed = _in_steps(mg, declared.streams) or _in_fixed_point(mg, declared)
    while changed:
        mg, _ = add_common_metadata_analysis_pass(mg)
        declared = _Declared(mg, {mg.node(node.name): item for node, item in formats.items()})
        changed = _in_fixed_point(mg, declared)
    declared.note()
    mg.recompile()
    return mg, {"kept": declared.names}


def _with_affine_spelled(mg: MaseGraph) -> MaseGraph:
    """Write what scales and shifts by constants between roundings as products, sums and layers."""
    written = False
    for node in [*mg.nodes]:
        if node.op != "call_function" or not isinstance(operator_at(node), Affine):
            continue
        call, streams = mg.call(node), stream_operands(node)
        operator = call.operator
        affine = operator.affine(call) if isinstance(operator, Affine) else None
        if affine is None or len(streams) != 1 or isinstance(operator, Exact):
            continue
        if not all(any(map(is_rounding, reached(node, step))) for step in _WAYS):
            continue
        layer, name = _by_channel(call, affine), node.name
        written |= rewrite(mg, node, call, partial(_spelled, affine, layer, streams[0][0]))
        if layer:
            update(mg.node(name), declared=layer, exact=True)
    return add_common_metadata_analysis_pass(mg)[0] if written else mg


def _by_channel(call: Call, affine: tuple[Tensor, Tensor]) -> dict[str, Format]:
    """Return the formats of a layer with one weight, a code of 1, for each channel of an image."""
    scale, shift = affine
    shape = call.result.shape
    if len(shape) not in CONVOLUTIONS or scale.numel() != shape[1] or shift.numel() != shape[1]:
        return {}
    weight = with_factors(whole_numbers(2), scale.float().reshape(-1), 0)
    bias = exact_format(shift.float().reshape(-1))
    return {} if weight is None or bias is None else {"weight": weight, "bias": bias}


def _spelled(
    affine: tuple[Tensor, Tensor], layer: Mapping[str, Format], name: str, operands: Table
) -> list[Tensor]:
    scale, shift = (item.float() for item in affine)
    if layer:
        rank = scale.dim()
        weight, groups = scale.reshape(-1, *[1] * (rank - 1)), scale.numel()
        one, none = [1] * (rank - 2), [0] * (rank - 2)
        convolution = CONVOLUTIONS[rank]
        return [convolution(operands[name], weight, shift.reshape(-1), one, none, one, groups)]
    scaled = aten.mul.Tensor(operands[name], scale)
    return [aten.add.Tensor(scaled, shift) if bool(shift.any()) else scaled]


def _hoist(mg: MaseGraph, rounding: Node) -> bool:
    """Move a rounding up past a node that commutes with it, or drop one that does nothing."""
    (producer,) = rounding.all_input_nodes
    if is_rounding(producer) and _format(producer) == _format(rounding):
        _join(mg, producer, rounding)
        return True
    if producer.op != "call_function" or not _commutes_with_rounding(mg, producer):
        return False
    if not _gives_reals(producer):
        return False
    number = _asked(producer)
    if number is None or _moves_bounds(mg, producer) or not _may_round_operands(producer):
        return False
    update(producer, exact=True)
    _round_operands(mg, producer, rounding)
    for user in list(producer.users):
        user.replace_all_uses_with(producer)
        erase_node(user)
    if _does_nothing(mg, producer, number):
        producer.replace_all_uses_with(producer.all_input_nodes[0])
        erase_node(producer)
    return True


def _join(mg: MaseGraph, node: Node, rounding: Node) -> None:
    """Let a node give what a rounding behind it gives."""
    joined = dict.fromkeys((*metadata(node).roundings, *metadata(rounding).roundings))
    update(node, roundings=tuple(joined))
    rounding.replace_all_uses_with(node)
    erase_node(rounding)


def _round_operands(mg: MaseGraph, node: Node, rounding: Node) -> None:
    """Round every stream that a node takes, as its result is."""
    target = overload(rounding.target)
    if _chooses(node):
        _round_constants(mg, node, rounding)
    for producer in {item: None for _, item in _chosen(node)}:
        name = free_name(producer, f"{producer.name}_rounded")
        arguments = producer, *rounding.args[1:]
        with mg.fx_graph.inserting_before(node):
            rounded = mg.fx_graph.create_node("call_function", target, arguments, name=name)
        spec = common(producer).results["data_out_0"].with_format(None)
        rounded.meta["mase"] = metadata(rounding)
        operator = common(rounding).operator
        known = CommonMetadata(operator, {"data_in_0": spec}, {"data_out_0": spec})
        update(rounded, common=known)
        _replace_operands(node, producer, rounded)


def _chosen(node: Node) -> list[tuple[str, Node]]:
    """The streams of which a node gives elements, by operand."""
    names = _choices(node)
    return [(name, item) for name, item in stream_operands(node) if not names or name in names]


def _choices(node: Node) -> tuple[str, ...]:
    """The operands of which a node chooses elements."""
    operator = operator_at(node)
    return operator.chosen if isinstance(operator, Choosing) else ()


def _chooses(node: Node) -> bool:
    return bool(_choices(node))


def _may_round_operands(node: Node) -> bool:
    """True where what a node chooses from is rounded already, or nothing else reads it."""
    chosen = [item for _, item in _chosen(node)]
    return not _chooses(node) or (
        bool(chosen)
        and all(_is_moved_rounding(item) or set(item.users) == {node} for item in chosen)
    )


def _is_moved_rounding(node: Node) -> bool:
    """True for a rounding, and for what only moves its elements."""
    while not is_rounding(node):
        operator = operator_at(node)
        if operator is None or not _commutes(operator) or len(node.all_input_nodes) != 1:
            return False
        (node,) = node.all_input_nodes
    return True


def _replace_operands(node: Node, producer: Node, rounded: Node) -> None:
    """Let a node take a rounded stream in place of one, but what decides what it chooses."""
    operands = dict(tensor_arguments(node))
    names = {name for name, _ in _chosen(node)}
    if all(name in names for name, item in operands.items() if item is producer):
        node.replace_input_with(producer, rounded)
        return
    fields = overload(node.target)._schema.arguments
    named = operator_of(node).operand_names
    for place, item in enumerate(node.args):
        if item is producer and named.get(fields[place].name, fields[place].name) in names:
            node.update_arg(place, rounded)


def _round_constants(mg: MaseGraph, node: Node, rounding: Node) -> None:
    """Round the constants of which a node gives elements, and declare their format."""
    operands, declared = dict(tensor_arguments(node)), {}
    number = _format(rounding)
    for name, values in mg.call(node).constants.items():
        item, own = operands[name], metadata(node).declared.get(name)
        if name not in _choices(node):
            continue
        declared[name] = number
        if isinstance(item, Node):
            exact = values if own is None else own.decode(own.encode(values))
            target = free_name(node, f"{node.name}_{name}_rounded")
            rounded = number.round_values(exact).to(values.dtype)
            node.replace_input_with(
                item, read_constant(mg.model, node, target, rounded, metadata(item))
            )
    joined = dict.fromkeys((*metadata(node).roundings, *metadata(rounding).roundings))
    update(node, declared={**metadata(node).declared, **declared}, roundings=tuple(joined))


def _does_nothing(mg: MaseGraph, node: Node, number: Format) -> bool:
    """True for a function that gives every code of a format back, as a bound beyond them does."""
    operator, streams = operator_of(node), stream_operands(node)
    if not isinstance(operator, Elementwise) or len(streams) != 1 or mg.call(node).constants:
        return False
    if number.bits_per_element > MAX_WIDTH_BITS or number.name not in operator.formats:
        return False
    low, high = number.encode(ENDS).tolist()
    if low > high:
        # Codes of floats, the sign beside: no bound leaves both of their zeros.
        return False
    codes = torch.arange(low, high + 1)
    operands = {"data_in_0": number.decode(codes)}
    values = operator.compute(node.target, aten_arguments(node), operands)
    return torch.equal(number.encode(values), codes)


def _gives_reals(node: Node) -> bool:
    return common(node).results["data_out_0"].dtype.startswith(("float", "bfloat"))


def _moves_bounds(mg: MaseGraph, node: Node) -> bool:
    """True where a rounding that has gone past a node has rounded its bounds."""
    producers = [item for _, item in stream_operands(node)]
    passed = metadata(node).exact and len(producers) == 1 and is_rounding(producers[0])
    if not passed or _chooses(node):
        return False
    number, constants = _format(producers[0]), mg.call(node).constants.values()
    kept = all(torch.equal(number.round_values(item), item) for item in constants)
    return not (kept and _keeps_bounds(node, number))


def _keeps_bounds(node: Node, number: Format) -> bool:
    """True where the bounds of a node, or what it pads with, are numbers of a format."""
    pads = any(item.name == "value" for item in overload(node.target)._schema.arguments)
    if len(stream_operands(node)) > 1 or _chooses(node):
        return True
    if not (isinstance(operator_of(node), Elementwise) or pads):
        return True
    shape = common(node).operands["data_in_0"].shape
    for end in number.decode(number.encode(ENDS)).tolist():
        result = overload(node.target)(torch.full(shape, end), *node.args[1:], **node.kwargs)
        if not torch.equal(number.round_values(result), result):
            return False
    return True


def _commutes(operator: Operator) -> bool:
    return Numeric.of(operator).keeps_format


def _commutes_with_rounding(mg: MaseGraph, node: Node) -> bool:
    """True for a node that keeps formats, or chooses between elements of its operands."""
    operator = operator_at(node)
    if operator is None or _commutes(operator):
        return operator is not None and not Numeric.of(operator).jumps
    return isinstance(operator, Choosing)


def _may_give(mg: MaseGraph, node: Node, number: Format, formats: Mapping[Node, Format]) -> bool:
    """True where a node gives the code of the exact number; else a cast rounds its result.

    Of what is approximated, tables of few codes do.
    """
    operator, streams = operator_of(node), _streams(mg, formats)
    if not _gives_reals(node) or _own_format(mg, node, streams) not in {None, number}:
        return False
    if not Numeric.of(operator).approximates:
        sums = isinstance(operator, Summing) and len(stream_operands(node)) > 1
        return not (sums and any(map(_approximates, reached(node, _unrounded))))
    operands = [streams.get(item) for _, item in stream_operands(node)]
    if None in operands and any(map(is_rounding, reached(node, _WAYS[0]))):
        return False
    narrow = all(item is None or item.bits_per_element <= MOST_TRIED_BITS for item in operands)
    alone = isinstance(operator, Elementwise) and len(operands) == 1
    return alone and narrow and number.name in {*operator.formats, *carried(operator)}


def _unrounded(node: Node) -> list[Node]:
    """What a node takes and the model has not rounded."""
    return [item for _, item in stream_operands(node) if not is_rounding(item)]


def _approximates(node: Node) -> bool:
    operator = operator_at(node)
    return operator is not None and Numeric.of(operator).approximates and not _commutes(operator)


def _asked(node: Node) -> Format | None:
    """The one format to which all that reads a node rounds it; None where one does not."""
    ways = _ways(node)
    return next(iter(ways)) if len(ways) == 1 else None


def _format_of_port(node: Node) -> Format | None:
    """The format to which all that reads an input rounds it; None where none does."""
    ways = _ways(node)
    if len(ways) > 1:
        ends = ", ".join(
            f"{users[0].name} {'takes it as it is' if number is None else f'rounds it to {number}'}"
            for number, users in ways.items()
        )
        raise UnsupportedError(
            f"input {node.name} has several formats: {ends}; a port has one, and a rounding of its "
            "codes is not that of the model: round it once, and let all that read it read that"
        )
    return next(iter(ways), None)


def _ways(node: Node) -> dict[Format | None, list[Node]]:
    """What reads a node, by the format to which it rounds it; None stands for reals."""
    ways: dict[Format | None, list[Node]] = {}
    for user in node.users:
        ways.setdefault(_format(user) if is_rounding(user) else None, []).append(user)
    return ways


def _split(mg: MaseGraph, node: Node) -> bool:
    """Compute what is rounded in several ways once for each; true where it was so."""
    operator, ways = operator_at(node), _ways(node)
    if operator is None or len(ways) < 2 or is_rounding(node) or isinstance(operator, Stateful):
        return False
    for users in [*ways.values()][1:]:
        with mg.fx_graph.inserting_after(node):
            copy = mg.fx_graph.node_copy(node)
        copy.name = free_name(node, f"{node.name}_copy")
        for user in users:
            user.replace_input_with(node, copy)
        _logger.warning(
            "%s (%s) is computed once more: what reads it rounds it in several ways",
            node.name, location(node),
        )  # fmt: skip
    return True


def _in_steps(mg: MaseGraph, streams: Mapping[Node, Format]) -> bool:
    """Let operators take steps of a scale that they have no hardware for, where they can.

    Steps are whole numbers, so that nothing is rounded once more.
    """
    changed = False
    for node, number in [*streams.items()]:
        for user in [item for item in node.users if item.op == "call_function"]:
            operator = operator_for(user.target)
            if not isinstance(operator, Rescaled) or number.name in operator.formats:
                continue
            call = mg.call(user)
            if has_scale(number) and [*call.streams] == ["data_in_0"]:
                unit = float(number.real_scale)
                spec = common(node).results["data_out_0"]
                steps = insert_after(node, STEPS, spec, spec, (unit, False))
                write = partial(_written, operator, call, unit)
                rewrite(mg, user, call, write, {"data_in_0": steps})
                changed = True
    return changed


def _in_fixed_point(mg: MaseGraph, declared: _Declared) -> bool:
    """Let nodes without a format for integers with a scale take the same numbers in fixed point.

    Scales are multiples of powers of two of a few bits: so are whole numbers times them.
    """
    for node in declared.stuck:
        for producer in {item: None for _, item in stream_operands(node)}:
            number = declared.streams.get(producer)
            if has_scale(number):
                spec = common(producer).results["data_out_0"]
                most = most_scale_bits(number, approximates=_approximates(node))
                bits = min(scale_bits(number), most)
                arguments = 1.0, False, bits
                steps = insert_after(producer, STEPS, spec, spec, arguments)
                node.replace_input_with(producer, steps)
    return bool(declared.stuck)


def _written(operator: Rescaled, call: Call, unit: float, operands: Table) -> list[Tensor]:
    return [operator.in_units(call, operands, unit)]


def _streams(mg: MaseGraph, formats: Mapping[Node, Format]) -> dict[Node, Format]:
    """Formats of all streams that the model rounds, behind what moves them too."""
    streams = dict(formats)
    for node in mg.nodes:
        operator = operator_at(node)
        if operator is None:
            continue
        operands = {streams.get(item) for _, item in _chosen(node)}
        number: Format | None = None
        if is_rounding(node):
            number = _format(node)
        elif node in streams:
            continue
        elif len(operands) == 1 and (_commutes(operator) or _commutes_with_rounding(mg, node)):
            (moved,) = operands
            number = moved if moved is not None and _holds_constants(mg, node, moved) else None
        else:
            number = _own_format(mg, node, streams)
        if number is not None:
            streams[node] = number
    return streams


def _holds_constants(mg: MaseGraph, node: Node, number: Format) -> bool:
    """True where what a node chooses, bounds or pads with besides streams has a format."""
    if not _chooses(node):
        return metadata(node).exact or _keeps_bounds(node, number)
    declared = metadata(node).declared
    return all(
        declared.get(name) == number or torch.equal(number.round_values(values), values)
        for name, values in mg.call(node).constants.items()
        if name in _choices(node)
    )


class _Declared:
    """Formats of operands and results of all nodes behind rounded streams, noted on the nodes.

    Args:
        mg: the graph, whose nodes are changed.
        formats: those of the streams that the model rounds.

    Attributes:
        streams: the formats of all exact streams.
        names: the nodes with such formats.
        stuck: nodes that have hardware for fixed point alone, and take integers with a scale.
    """

    def __init__(self, mg: MaseGraph, formats: Mapping[Node, Format]) -> None:
        self._mg = mg
        self.streams, self.names = _streams(mg, formats), list[str]()
        self.stuck, self._notes = list[Node](), dict[Node, Record]()
        # Of whose results something is computed that the model rounds, and to which steps.
        ahead = dict[Node, float]()
        for node in reversed([*mg.nodes]):
            number = _format(node) if is_rounding(node) else formats.get(node)
            step = float(min(scales(number))) if has_steps(number) else ahead.get(node, 1.0)
            if number is not None or node in ahead:
                ahead.update({item: min(step, ahead.get(item, step)) for item in _inputs(node)})
        self._inexact = set[Node]()
        for node in mg.nodes:
            operator = operator_at(node)
            if operator is None:
                continue
            if not is_rounding(node) and node not in formats:
                given = {item for _, item in stream_operands(node)}
                if _approximates(node) or given & self._inexact:
                    self._inexact.add(node)
            if not self._moves(node, operator):
                self._declare(node, operator, ahead.get(node))

    def note(self) -> None:
        """Write the formats on the nodes."""
        for node, fields in self._notes.items():
            update(node, **fields)

    def _operands(self, node: Node) -> tuple[dict[str, Format], bool]:
        """Formats of the exact streams that a node takes, and whether those are all."""
        streams = stream_operands(node)
        operands = {name: self.streams[item] for name, item in streams if item in self.streams}
        return operands, bool(operands) and len(operands) == len(streams)

    def _moves(self, node: Node, operator: Operator) -> bool:
        """Note the one format of what a node moves; false where it computes."""
        shares = Numeric.of(operator).shares_format
        if not _commutes(operator) or (operator.casts and not shares):
            return False
        operands, complete = self._operands(node)
        if is_rounding(node) or not complete:
            return shares
        formats = [*operands.values()]
        number = formats[0] if len({*formats}) == 1 else common_grid(formats)
        if number is not None:
            self.streams[node] = number
            self._notes[node] = {"exact": True}
            if shares:
                self._notes[node]["declared"] = {"data_out_0": number}
        return True

    def _declare(self, node: Node, operator: Operator, step: float | None) -> None:
        operands, complete = self._operands(node)
        result = {"data_out_0": self.streams[node]} if node in self.streams else {}
        legal = {*operator.formats, *carried(operator)}
        if isinstance(operator, Multiplying) and result:
            legal |= set(names_in(SCALED))
        fits = bool(operands) and all(item.name in legal for item in operands.values())
        # What is left in real numbers, before or behind, has formats of the configuration.
        exact, approximates = complete and bool(result), Numeric.of(operator).approximates
        inexact = any(item in self._inexact for _, item in stream_operands(node))
        if inexact and step is not None and Numeric.of(operator).jumps:
            raise UnsupportedError(
                f"{node.name} ({location(node)}) takes numbers that are approximated, and its "
                "results jump; round them in the model before it"
            )
        if exact and not fits and not approximates and not isinstance(operator, Rescaled):
            if self._is_stuck(node, operands):
                return
            number = next(iter(operands.values()))
            raise UnsupportedError(
                f"{node.name} ({location(node)}) takes {number}, in which {operator.name} has no "
                "hardware; what the model says of it cannot be kept exactly"
            )
        own = {
            name: item for name, item in metadata(node).declared.items()
            if item.name in legal or exact
        }  # fmt: skip
        if "data_out_0" in own:
            # It was declared before others were written anew.
            self.streams.setdefault(node, own["data_out_0"])
        declared = {**own, **(operands if fits else {}), **result}
        if operator.role == COMPARISON:
            declared |= compared_formats(self._mg.call(node), operands)
        elif fits and isinstance(operator, Exact) and not isinstance(operator, Weighted):
            for name, values in self._mg.call(node).constants.items():
                constant = declared.get(name) or exact_constant(values, operands.values())
                declared |= {name: constant} if constant is not None else {}
        if operator.role == STEPS:
            declared, steps = operands, _own_format(self._mg, node, self.streams)
            if steps is not None:
                self.streams[node] = steps
        between: Mapping[str, Format] = {}
        if approximates and not result:
            between = _finer(self._mg, node, declared)
        if not between and step is not None and complete and "data_out_0" not in declared:
            between = format_between(node, self._mg.call(node), {**own, **operands}, step)
            computed = between.get("data_out_0")
            if node in self._inexact and is_binary(computed):
                between = {**between, "data_out_0": shortened(computed)}
            declared = {**own, **operands} if between else declared
        if between:
            declared, fits = {**declared, **between}, True
            self.streams[node] = between["data_out_0"]
        elif (
            step is not None
            and complete
            and node not in self.streams
            and "data_out_0" not in declared
            and self._is_stuck(node, operands)
        ):
            return
        if declared != metadata(node).declared:
            self._notes[node] = {"declared": declared}
        if declared:
            exact = fits or metadata(node).exact
            self._notes[node] = {**self._notes.get(node, {}), "exact": exact}
            self.names.append(node.name)

    def _is_stuck(self, node: Node, operands: Mapping[str, Format]) -> bool:
        """Note a node that may take the same numbers in fixed point; false where there is none."""
        operator, numbers = operator_of(node), [*filter(has_scale, operands.values())]
        # What is approximated may be so of numbers that are much nearer than its steps.
        exact = all(
            scale_bits(item) <= most_scale_bits(item, approximates=_approximates(node))
            for item in numbers
        )
        stuck = bool(numbers) and DEFAULT_FORMAT in operator.formats
        stuck = stuck and (exact or Numeric.of(operator).approximates)
        if stuck:
            self.stuck.append(node)
        return stuck


def _own_format(mg: MaseGraph, node: Node, streams: Mapping[Node, Format]) -> Format | None:
    operands = {name: streams.get(item) for name, item in stream_operands(node)}
    call = mg.call(node).with_formats(operands)
    return Numeric.of(call.operator).result_format(call)


def _finer(mg: MaseGraph, node: Node, declared: Mapping[str, Format]) -> dict[str, Format]:
    """Formats in which what is approximated is rounded to the model's levels behind it.

    They are many times finer than the levels, the constants as well; none where nothing rounds.
    """
    levels = next((_format(user) for user in node.users if is_rounding(user)), None)
    if not has_steps(levels):
        return {}
    call = mg.call(node)
    operands = {name: declared.get(name, whole_numbers(8)) for name in call.streams}
    for bits in FINER_BITS:
        between: dict[str, Format] = {"data_out_0": finer(levels, bits)}
        for name, values in call.constants.items():
            if name not in declared:
                between[name] = reaching(float(values.abs().max()), bits + FINER_BITS[0] // 2)
        if not call.operator.problems(call.with_formats({**declared, **operands, **between})):
            return between
    return {}


def _format(node: Node) -> Format:
    number = rounded_format(node)
    if number is None:
        raise UnsupportedError(f"{node.name} ({location(node)}) rounds to codes that no format has")
    return number
