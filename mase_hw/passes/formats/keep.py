"""`keep_formats_transform_pass`: what a model rounds itself becomes the formats of its edges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._aten import aten, overload
from mase_hw._kinds import Table
from mase_hw.arithmetic.exact_formats import (
    common_grid,
    exact_constant,
    finer,
    has_scale,
    has_steps,
    reaching,
    whole_numbers,
)
from mase_hw.errors import UnsupportedError
from mase_hw.formats import SCALED, Format, make_format, names_in
from mase_hw.graph.calls import aten_arguments
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import CommonMetadata, common, location, metadata, update
from mase_hw.graph.rounded import exact_format, is_rounding, rounded_format, with_factors
from mase_hw.graph.streams import stream_operands
from mase_hw.ops import (
    Affine,
    Call,
    Elementwise,
    Exact,
    Multiplying,
    Numeric,
    Rescaled,
    Selecting,
    Weighted,
    carried,
    operator_for,
)
from mase_hw.passes._insert import insert_after, unique_name
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical._rewrite import rewrite
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.canonical.remove_identity import erase_node
from mase_hw.passes.formats._between import (
    MOST_TRIED_BITS,
    compared_formats,
    format_between,
)
from mase_hw.passes.formats._comparisons import ROLE as COMPARISON
from mase_hw.passes.formats._comparisons import absorb_scales
from mase_hw.passes.formats.shared_formats import operator_of, shares_format

STEPS = "steps"
# By the dimensions of what they take.
CONVOLUTIONS = {3: aten.conv1d.default, 4: aten.conv2d.default}
# Codes that are tried one by one.
MAX_WIDTH_BITS = 16
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
    while _hoist(mg):
        pass
    formats = {node: number for node in mg.inputs if (number := _asked(node)) is not None}
    for node in mg.nodes:
        if node.op == "call_function" and not is_rounding(node) and _absorbs(node):
            number = _asked(node)
            if number is not None and _may_give(mg, node, number, formats):
                formats[node] = number
    for node, number in formats.items():
        update(node, exact=True)
        if node.op == "placeholder":
            update(node, declared={"data_out_0": number})
        for rounding in list(node.users):
            _join(mg, node, rounding)
    known, kept = _declare(mg, formats)
    stepped = _in_steps(mg, known)
    if stepped is not None:
        mg = stepped
        formats = {mg.node(node.name): number for node, number in formats.items()}
        _, kept = _declare(mg, formats)
    mg.recompile()
    return mg, {"kept": kept}


def _with_affine_spelled(mg: MaseGraph) -> MaseGraph:
    """Write what scales and shifts by constants between roundings as products, sums and layers."""
    behind, ahead, written = set[Node](), set[Node](), False
    for node in mg.nodes:
        if is_rounding(node) or metadata(node).exact or behind.intersection(node.all_input_nodes):
            behind.add(node)
    for node in reversed([*mg.nodes]):
        if is_rounding(node) or ahead.intersection(node.users):
            ahead.add(node)
    for node in [item for item in mg.nodes if item in behind & ahead and not is_rounding(item)]:
        if node.op != "call_function" or common(node).operator is None:
            continue
        call, streams = mg.call(node), stream_operands(node)
        operator = call.operator
        affine = operator.affine(call) if isinstance(operator, Affine) else None
        if affine is None or len(streams) != 1 or isinstance(operator, Exact):
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
    ones = make_format({"name": "fixed", "width": 2, "frac_width": 0})
    weight = with_factors(ones, scale.float().reshape(-1), 0)
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


def _hoist(mg: MaseGraph) -> bool:
    """Move one rounding up past a node that commutes with it, or drop one that does nothing."""
    for node in mg.nodes:
        if not is_rounding(node):
            continue
        (producer,) = node.all_input_nodes
        if is_rounding(producer) and _format(producer) == _format(node):
            _join(mg, producer, node)
            return True
        if producer.op != "call_function" or not _commutes_with_rounding(mg, producer):
            continue
        if not common(producer).results["data_out_0"].dtype.startswith(("float", "bfloat")):
            continue
        number = _asked(producer)
        if number is None or _moves_bounds(producer):
            continue
        update(producer, exact=True)
        _round_operands(mg, producer, node)
        for rounding in list(producer.users):
            rounding.replace_all_uses_with(producer)
            erase_node(mg, rounding)
        if _does_nothing(mg, producer, number):
            producer.replace_all_uses_with(producer.all_input_nodes[0])
            erase_node(mg, producer)
        return True
    return False


def _join(mg: MaseGraph, node: Node, rounding: Node) -> None:
    """Let a node give what a rounding behind it gives."""
    joined = dict.fromkeys((*metadata(node).roundings, *metadata(rounding).roundings))
    update(node, roundings=tuple(joined))
    rounding.replace_all_uses_with(node)
    erase_node(mg, rounding)


def _round_operands(mg: MaseGraph, node: Node, rounding: Node) -> None:
    """Round every stream that a node takes, as its result is."""
    target = overload(rounding.target)
    for producer in {item: None for _, item in stream_operands(node)}:
        name = unique_name(f"{producer.name}_rounded", [item.name for item in mg.nodes])
        with mg.fx_graph.inserting_before(node):
            made = mg.fx_graph.create_node(
                "call_function", target, (producer, *rounding.args[1:]), {}, name=name
            )
        spec = common(producer).results["data_out_0"].with_format(None)
        known = CommonMetadata(common(rounding).operator, {"data_in_0": spec}, {"data_out_0": spec})
        made.meta["mase"] = metadata(rounding)
        update(made, common=known)
        node.replace_input_with(producer, made)


def _does_nothing(mg: MaseGraph, node: Node, number: Format) -> bool:
    """Return whether a function gives every code of a format back, as a bound beyond them does."""
    operator, streams = operator_of(node), stream_operands(node)
    if not isinstance(operator, Elementwise) or len(streams) != 1:
        return False
    if number.bits_per_element > MAX_WIDTH_BITS:
        return False
    call = mg.call(node)
    if call.constants or number.name not in operator.formats:
        return False
    low, high = number.encode(torch.tensor([-math.inf, math.inf])).tolist()
    if low > high:
        # Codes of floats, the sign beside: no bound leaves both of their zeros.
        return False
    codes = torch.arange(low, high + 1)
    given = {"data_in_0": number.decode(codes)}
    found = operator.compute(node.target, aten_arguments(node), given)
    return torch.equal(number.encode(found), codes)


def _moves_bounds(node: Node) -> bool:
    """True where a rounding that has gone past a node has rounded its bounds."""
    producers = [item for _, item in stream_operands(node)]
    passed = metadata(node).exact and len(producers) == 1 and is_rounding(producers[0])
    return passed and not _keeps_bounds(node, _format(producers[0]))


def _keeps_bounds(node: Node, number: Format) -> bool:
    """True where the bounds of a node, or what it pads with, are numbers of a format."""
    pads = any(item.name == "value" for item in overload(node.target)._schema.arguments)
    if len(stream_operands(node)) > 1 or not (isinstance(operator_of(node), Elementwise) or pads):
        return True
    shape = common(node).operands["data_in_0"].shape
    for end in number.decode(number.encode(torch.tensor([-math.inf, math.inf]))).tolist():
        result = overload(node.target)(torch.full(shape, end), *node.args[1:], **node.kwargs)
        if not torch.equal(number.round_values(result), result):
            return False
    return True


def _commutes(node: Node) -> bool:
    """Return whether rounding the operands of a node rounds its result alike."""
    return common(node).operator is not None and Numeric.of(operator_of(node)).keeps_format


def _commutes_with_rounding(mg: MaseGraph, node: Node) -> bool:
    """Return whether a node keeps formats, or chooses between elements of several streams."""
    if common(node).operator is None or _commutes(node):
        return common(node).operator is not None and not Numeric.of(operator_of(node)).jumps
    operator = operator_of(node)
    if not isinstance(operator, Selecting) or mg.call(node).constants:
        return False
    return len(stream_operands(node)) > 1 and not Numeric.of(operator).result_format(mg.call(node))


def _absorbs(node: Node) -> bool:
    """Return whether a node may round its result to what the model says."""
    return common(node).operator is not None and operator_of(node).casts and not _commutes(node)


def _may_give(mg: MaseGraph, node: Node, number: Format, formats: Mapping[Node, Format]) -> bool:
    """True where a node gives the code of the exact number; else a cast rounds its result.

    Of what is approximated, tables of few codes do.
    """
    operator = operator_of(node)
    if not Numeric.of(operator).approximates:
        return True
    known = _streams(mg, formats)
    given = [known.get(item) for _, item in stream_operands(node)]
    narrow = all(item is None or item.bits_per_element <= MOST_TRIED_BITS for item in given)
    alone = isinstance(operator, Elementwise) and len(given) == 1
    return alone and narrow and number.name in {*operator.formats, *carried(operator)}


def _approximates(node: Node) -> bool:
    return Numeric.of(operator_of(node)).approximates


def _asked(node: Node) -> Format | None:
    """Return the one format to which all that reads a node rounds it; None where one does not.

    Raises:
        UnsupportedError: where there are several.
    """
    users = [user for user in node.users if is_rounding(user)]
    if not users:
        return None
    number = _format(users[0])
    odd = next((user for user in node.users if user not in users), None)
    other = next((user for user in users if _format(user) != number), None)
    if odd is None and other is None:
        return number
    also = f"to {_format(other)} by {other.name}" if other is not None else f"not by {odd}"
    raise UnsupportedError(
        f"{node.name} ({location(node)}) is rounded to {number} by {users[0].name}, and {also}; "
        "exact hardware has one rounding of a result: let all that read it read the rounded one"
    )


def _in_steps(mg: MaseGraph, known: Mapping[Node, Format]) -> MaseGraph | None:
    """Let operators take steps of a scale that they have no hardware for, where they can.

    Steps are whole numbers, so that nothing is rounded once more.
    """
    taken: list[Node] = []
    for node, number in [*known.items()]:
        for user in [item for item in node.users if item.op == "call_function"]:
            operator = operator_for(user.target)
            if not isinstance(operator, Rescaled) or number.name in operator.formats:
                continue
            call = mg.call(user)
            if not has_scale(number):
                continue
            if [*call.streams] == ["data_in_0"]:
                unit = float(number.real_scale)
                steps = insert_after(
                    mg, node, STEPS, *[common(node).results["data_out_0"]] * 2, (unit, False)
                )
                write = partial(_written, operator, call, unit)
                rewrite(mg, user, call, write, {"data_in_0": steps})
                taken.append(steps)
    return add_common_metadata_analysis_pass(mg)[0] if taken else None


def _written(operator: Rescaled, call: Call, unit: float, operands: Table) -> list[Tensor]:
    return [operator.in_units(call, operands, unit)]


def _streams(mg: MaseGraph, formats: Mapping[Node, Format]) -> dict[Node, Format]:
    """Return the formats of all streams that the model rounds, behind what moves them too."""
    known = dict(formats)
    for node in mg.nodes:
        if node.op != "call_function" or common(node).operator is None:
            continue
        given = {known.get(item) for _, item in stream_operands(node)}
        if is_rounding(node):
            known[node] = _format(node)
        elif (
            node not in known
            and (_commutes(node) or _commutes_with_rounding(mg, node))
            and len(given) == 1
        ):
            (number,) = given
            if number is not None and (metadata(node).exact or _keeps_bounds(node, number)):
                known[node] = number
        elif node not in known:
            own = _own_format(mg, node, known)
            if own is not None:
                known[node] = own
    return known


def _declare(mg: MaseGraph, formats: Mapping[Node, Format]) -> tuple[dict[Node, Format], list[str]]:
    """Note the formats of operands and results of all nodes behind rounded streams.

    Returns:
        The formats of all exact streams, and the names of the nodes.
    """
    known, ahead = _streams(mg, formats), _rounded_later(mg, formats)
    kept = []
    for node in mg.nodes:
        if node.op != "call_function" or common(node).operator is None:
            continue
        operator, streams = operator_of(node), stream_operands(node)
        given = {name: known[item] for name, item in streams if item in known}
        moves = _commutes(node) and (not operator.casts or shares_format(node))
        if moves and not is_rounding(node) and len(given) == len(streams) and given:
            one = next(iter(given.values())) if len({*given.values()}) == 1 else None
            one = one or common_grid([*given.values()])
            if one is not None:
                known[node] = one
                update(node, exact=True)
            if one is not None and shares_format(node):
                update(node, declared={"data_out_0": one})
            continue
        if moves and shares_format(node):
            continue
        result = {"data_out_0": known[node]} if node in known else {}
        has = {*operator.formats, *carried(operator)}
        if isinstance(operator, Multiplying) and result:
            has |= set(names_in(SCALED))
        fits = given and all(number.name in has for number in given.values())
        # What is left in real numbers, before or behind, has formats of the configuration.
        kept_exactly = len(given) == len(streams) and result
        approximates = Numeric.of(operator).approximates or isinstance(operator, Rescaled)
        if kept_exactly and not fits and not approximates:
            wanted = next(iter(given.values()))
            raise UnsupportedError(
                f"{node.name} ({location(node)}) takes {wanted}, in which {operator.name} has no "
                "hardware; what the model says of it cannot be kept exactly"
            )
        own = {
            name: number for name, number in metadata(node).declared.items()
            if number.name in has or kept_exactly
        }  # fmt: skip
        if "data_out_0" in own:
            # It was declared before others were written anew.
            known.setdefault(node, own["data_out_0"])
        declared = {**own, **(given if fits else {}), **result}
        if operator.role == COMPARISON:
            declared |= compared_formats(mg.call(node), given)
        elif fits and isinstance(operator, Exact) and not isinstance(operator, Weighted):
            for name, values in mg.call(node).constants.items():
                number = declared.get(name) or exact_constant(values, given.values())
                declared |= {name: number} if number is not None else {}
        if operator.role == STEPS:
            declared, steps = given, _own_format(mg, node, known)
            if steps is not None:
                known[node] = steps
        fine = _finer(mg, node, declared) if not result and _approximates(node) else {}
        if fine:
            declared, fits = {**declared, **fine}, True
            known[node] = fine["data_out_0"]
        if node in ahead and "data_out_0" not in declared and len(given) == len(streams) and given:
            taken = {**own, **given}
            between = format_between(node, mg.call(node), taken)
            if between:
                declared, fits = {**taken, **between}, True
                known[node] = between["data_out_0"]
        if declared != metadata(node).declared:
            update(node, declared=declared)
        if declared:
            update(node, exact=bool(fits) or metadata(node).exact)
            kept.append(node.name)
    return known, kept


def _own_format(mg: MaseGraph, node: Node, known: Mapping[Node, Format]) -> Format | None:
    """Return the format that an operator chooses: of whole numbers, and of steps of a format."""
    given = {name: known.get(item) for name, item in stream_operands(node)}
    call = mg.call(node).with_formats(given)
    return Numeric.of(call.operator).result_format(call)


def _rounded_later(mg: MaseGraph, formats: Mapping[Node, Format]) -> set[Node]:
    """Return the nodes of whose results something is computed that the model rounds."""
    found = set[Node]()
    for node in reversed([*mg.nodes]):
        if node in formats or is_rounding(node) or node in found:
            found.update(node.all_input_nodes)
    return found


def _finer(mg: MaseGraph, node: Node, declared: Mapping[str, Format]) -> dict[str, Format]:
    """Return formats in which what is approximated is rounded to the model's levels behind it.

    They are many times finer than the levels, the constants as well; none where nothing rounds.
    """
    levels = [_format(user) for user in node.users if is_rounding(user)]
    if not levels or not has_steps(levels[0]):
        return {}
    call = mg.call(node)
    given = {name: declared.get(name, whole_numbers(8)) for name in call.streams}
    for bits in FINER_BITS:
        found: dict[str, Format] = {"data_out_0": finer(levels[0], bits)}
        for name, values in call.constants.items():
            if name not in declared:
                found[name] = reaching(float(values.abs().max()), bits + FINER_BITS[0] // 2)
        if not call.operator.problems(call.with_formats({**declared, **given, **found})):
            return found
    return {}


def _format(node: Node) -> Format:
    number = rounded_format(node)
    if number is None:
        raise UnsupportedError(f"{node.name} ({location(node)}) rounds to codes that no format has")
    return number
