"""`keep_formats_transform_pass`: what a model rounds itself becomes the formats of its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._aten import aten
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
from mase_hw.graph.metadata import common, location, metadata, update
from mase_hw.graph.rebuild import reached
from mase_hw.graph.rounded import exact_format, is_rounding, with_factors
from mase_hw.graph.streams import stream_operands
from mase_hw.ops import (
    Affine,
    Call,
    Elementwise,
    Exact,
    Multiplying,
    Numeric,
    Operator,
    Rescaled,
    Summing,
    Weighted,
    carried,
    operator_for,
)
from mase_hw.passes._insert import insert_after
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical._rewrite import rewrite
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.formats._between import MOST_TRIED_BITS, compared_formats, format_between
from mase_hw.passes.formats._comparisons import ROLE as COMPARISON
from mase_hw.passes.formats._comparisons import absorb_scales
from mase_hw.passes.formats._hoist import (
    asked,
    chosen,
    commutes,
    commutes_with_rounding,
    gives_reals,
    hoist,
    join,
    keeps_bounds,
    names_chosen,
    number_of,
)
from mase_hw.passes.formats.edges import operator_at, operator_of

STEPS = "steps"
# By the dimensions of what they take.
CONVOLUTIONS = {3: aten.conv1d.default, 4: aten.conv2d.default}


def _inputs(node: Node) -> list[Node]:
    return node.all_input_nodes


# From a node to those before it, and behind it.
_WAYS: tuple[Callable[[Node], Iterable[Node]], ...] = (_inputs, lambda node: node.users)
# Bits of a step of the model's that what is approximated has before it is rounded to them.
FINER_BITS = (16, 14, 12, 10, 8)


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

    Raises:
        UnsupportedError: where a tensor is rounded and used as it is, or in two ways.
    """
    if not any(is_rounding(node) or metadata(node).exact for node in mg.nodes):
        return mg, {"kept": []}
    mg = absorb_scales(_with_affine_spelled(mg.copy()))
    while any(hoist(mg, node) for node in mg.nodes if is_rounding(node)):
        pass
    formats = {node: number for node in mg.inputs if (number := asked(node)) is not None}
    for node in mg.nodes:
        operator = operator_at(node)
        absorbs = operator is not None and operator.casts and not commutes(operator)
        number = asked(node) if absorbs and not is_rounding(node) else None
        if number is not None and _may_give(mg, node, number, formats):
            formats[node] = number
    for node, number in formats.items():
        update(node, exact=True)
        if node.op == "placeholder":
            update(node, declared={"data_out_0": number})
        for rounding in list(node.users):
            join(mg, node, rounding)
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


def _may_give(mg: MaseGraph, node: Node, number: Format, formats: Mapping[Node, Format]) -> bool:
    """True where a node gives the code of the exact number; else a cast rounds its result.

    Of what is approximated, tables of few codes do.
    """
    operator, streams = operator_of(node), _streams(mg, formats)
    if not gives_reals(node) or _own_format(mg, node, streams) not in {None, number}:
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
    return operator is not None and Numeric.of(operator).approximates and not commutes(operator)


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
                steps = insert_after(mg, node, STEPS, spec, spec, (unit, False))
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
                most = most_scale_bits(number, exact=not _approximates(node))
                arguments = 1.0, False, min(scale_bits(number), most)
                steps = insert_after(mg, producer, STEPS, spec, spec, arguments)
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
        operands = {streams.get(item) for _, item in chosen(node)}
        number: Format | None = None
        if is_rounding(node):
            number = number_of(node)
        elif node in streams:
            continue
        elif len(operands) == 1 and (commutes(operator) or commutes_with_rounding(mg, node)):
            (moved,) = operands
            number = moved if moved is not None and _holds_constants(mg, node, moved) else None
        else:
            number = _own_format(mg, node, streams)
        if number is not None:
            streams[node] = number
    return streams


def _holds_constants(mg: MaseGraph, node: Node, number: Format) -> bool:
    """True where what a node chooses, bounds or pads with besides streams has a format."""
    names = names_chosen(node)
    if not names:
        return metadata(node).exact or keeps_bounds(node, number)
    declared = metadata(node).declared
    return all(
        declared.get(name) == number or torch.equal(number.round_values(values), values)
        for name, values in mg.call(node).constants.items()
        if name in names
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
            number = number_of(node) if is_rounding(node) else formats.get(node)
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
        if not commutes(operator) or (operator.casts and not shares):
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
        if step is not None and inexact and Numeric.of(operator).jumps:
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
            declared, own_format = operands, _own_format(self._mg, node, self.streams)
            if own_format is not None:
                self.streams[node] = own_format
        between: Mapping[str, Format] = {}
        if approximates and not result:
            between = _finer(self._mg, node, declared)
        if not between and step is not None and complete and "data_out_0" not in declared:
            between = format_between(node, self._mg.call(node), {**own, **operands}, step)
            steps = between.get("data_out_0")
            if node in self._inexact and is_binary(steps):
                between = {**between, "data_out_0": shortened(steps)}
            declared = {**own, **operands} if between else declared
        if between:
            declared, fits = {**declared, **between}, True
            self.streams[node] = between["data_out_0"]
        has_format = node in self.streams or "data_out_0" in declared
        if step is not None and complete and not has_format and self._is_stuck(node, operands):
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
        exact = all(scale_bits(item) <= most_scale_bits(item) for item in numbers)
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
    levels = next((number_of(user) for user in node.users if is_rounding(user)), None)
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
