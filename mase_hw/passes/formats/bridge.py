"""Give operators hardware in formats that they do not compute in, through exact values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.node import map_arg

from mase_hw.arithmetic.carriers import (
    exact_bits,
    exact_fixed,
    exact_fixed_of,
    exact_float,
    fixed_of,
)
from mase_hw.arithmetic.exact_formats import ends_in_steps, has_scale, is_binary
from mase_hw.arithmetic.exact_requantize import Part, dyadic_near, exact_step_bits, same_steps
from mase_hw.arithmetic.requantize import scales as step_sizes
from mase_hw.arithmetic.requantize import step_quotient
from mase_hw.formats import (
    DEFAULT_FORMAT,
    FIXED_POINT,
    BlockFormat,
    Format,
    family_of,
    format_class,
)
from mase_hw.geometry.blocks import block_axis, is_block
from mase_hw.graph.calls import tensor_arguments
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common, metadata, update
from mase_hw.graph.rebuild import set_tensor
from mase_hw.graph.streams import stream_operands
from mase_hw.ops import (
    Call,
    Exact,
    Multiplying,
    Numeric,
    Operator,
    Prepared,
    Selecting,
    Summing,
    TensorSpec,
    operator_for_role,
)
from mase_hw.passes._insert import insert_after, result_dtype, unique_name
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.formats.cast import ROLE, insert_casts_transform_pass
from mase_hw.passes.formats.quantize import observed_range
from mase_hw.passes.formats.shared_formats import operator_of

ORDER, STEPS, ROUNDING = "order", "steps", "rounding"
# Fraction bits that means have beyond their elements before integers with a scale are made of them.
MEAN_BITS = 20
# Bits of a quotient of scales that are tried.
FEWEST_BITS, MOST_STEP_BITS = 18, 40
FACTORS = 2


@graph_pass
def bridge_formats_transform_pass(mg: MaseGraph) -> Result:
    """Insert casts to exact values, and back, around operators without hardware for a format.

    Operands are decoded exactly, the operator computes exactly, and its result is rounded once, as
    its own format says:

    - what only moves elements, such as a `flatten` behind a convolution in blocks, moves them as
      floats that hold an element and its scale; results of several in a row are encoded at the end;
    - so does what joins tensors, and blocks that are cast to blocks along another dimension;
    - what depends on the order of elements alone, such as a largest one, compares the places of
      such floats in the order of all floats;
    - what is so many times as large for integers with a real scale that is so many times as large
      computes with their steps, exact multiples of steps of its result;
    - what is exact in fixed point, such as a sum, computes in fixed point whose unit is the
      smallest number of the format; means keep so many further bits that rounding twice is
      rounding once.

    A format for which there are no such values is moved in as many bits of fixed point, with a
    fraction fitted to the observed values; everything else stays, for `problems` to say why.

    Args:
        mg: a quantised graph.

    Returns:
        The graph, and `{"bridged": names of the operators}`.
    """
    moved = any(_takes(node) and not _moves(node, operator_of(node)) for node in mg.nodes)
    plans = {node.name: plan for node in mg.nodes if (plan := _plan(mg, node)) is not None}
    turned = {node.name: number for node in mg.nodes if (number := _turned(node)) is not None}
    if not moved and not plans and not turned:
        return mg, {"bridged": []}
    mg = mg.copy()
    bridged = []
    for node in mg.nodes:
        if node.name in plans:
            plans[node.name].carry(mg, node)
            bridged.append(node.name)
        elif node.name in turned:
            asked_for = common(node).results["data_out_0"]
            between = asked_for.with_format(turned[node.name])
            update(node, common=replace(common(node), results={"data_out_0": between}))
            _behind(mg, node, ROLE, between, asked_for, ())
            bridged.append(node.name)
        elif moved and _takes(node):
            asked = {name: spec.format for name, spec in common(node).results.items()}
            number = _common_format(node)
            if number.name not in operator_of(node).formats:
                number = _bridge(node, number)
                bridged.append(node.name)
            _set(node, number)
            _return_as(mg, node, asked["data_out_0"])
    mg, _ = insert_casts_transform_pass(mg, {})
    return mg, {"bridged": bridged}


def _turned(node: Node) -> Format | None:
    """Return the floats through which blocks are cast to blocks along another dimension."""
    if node.op != "call_function" or common(node).operator != ROLE:
        return None
    (data,), (result,) = common(node).operands.values(), common(node).results.values()
    if data.format is None or result.format is None:
        return None
    if not (is_block(data) and is_block(result)) or block_axis(data) == block_axis(result):
        return None
    return exact_float(data.quantized)


Arguments = tuple[float | list[int] | list[float], ...]
Stored = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class _Plan:
    """How a node computes with exact values.

    Attributes:
        operands: their formats.
        result: that of the result.
        role: of what stands before operands, and before results are what was asked for; None where
            casts do.
        taken: the format that it takes, by operand; what it gives behind the result.
        there: its other arguments, before each operand.
        back: its other arguments, behind the result.
        rounded: from constants to what is stored in their place.
        rounds: whether codes of the exact numbers are proved behind the result.
    """

    operands: Mapping[str, Format]
    result: Format
    role: str | None = None
    taken: Mapping[str, Format] = field(default_factory=dict)
    given: Format | None = None
    there: Mapping[str, Arguments] = field(default_factory=dict)
    back: Arguments = ()
    rounded: Mapping[str, Stored] = field(default_factory=dict)
    rounds: bool = False

    def carry(self, mg: MaseGraph, node: Node) -> None:
        """Give a node these formats, and insert what stands before and behind it."""
        known = common(node)
        asked = known.results["data_out_0"]
        operands = {
            name: spec.with_format(self.operands.get(name, spec.format))
            for name, spec in known.operands.items()
        }
        for name in self.taken:
            spec = operands[name]
            dtype = result_dtype(self.role or ROLE, spec, self.there[name])
            operands[name] = replace(spec, dtype=dtype)
        last, result = node, asked.with_format(self.result)
        update(node, common=replace(known, operands=operands, results={"data_out_0": result}))
        for name, stored in self.rounded.items():
            _store_constant(mg, node, name, stored)
        if self.role is not None:
            # One stream may be several operands, each in steps of its own.
            given, made = stream_operands(node), dict[tuple[object, ...], Node]()
            for name, producer in given:
                key = producer, self.there.get(name), operands[name].format
                if name in self.taken and key not in made:
                    taken = known.operands[name].with_format(self.taken[name])
                    made[key] = insert_after(
                        mg, producer, self.role, taken, operands[name], self.there[name]
                    )
            taking = iter(
                made.get((producer, self.there.get(name), operands[name].format), producer)
                for name, producer in given
            )
            node.args, node.kwargs = map_arg(
                (node.args, node.kwargs),
                lambda item: item if item.op == "get_attr" else next(taking),
            )
            if self.given is not None:
                inner, result = result, asked.with_format(self.given)
                last = _behind(mg, last, self.role, inner, result, self.back)
        if result.format != asked.format:
            role, said = (ROUNDING, _levels(asked.quantized)) if self.rounds else (ROLE, ())
            _behind(mg, last, role, result, asked, said)


def _levels(number: Format) -> Arguments:
    """Return the arguments of `fake_quantize` for integers with a scale."""
    assert has_scale(number)
    return [*number.scales], [*number.zero_points], 0, *number.code_range


def _store_constant(mg: MaseGraph, node: Node, name: str, function: Stored) -> None:
    """Give a node what a function makes of a constant operand."""
    given = dict(tensor_arguments(node, operator_of(node).operand_names))[name]
    stored = function(mg.call(node).constants[name])
    if not isinstance(given, Node):
        arguments = dict(zip(node.target._schema.arguments, node.args, strict=False))  # type: ignore[union-attr]
        names = operator_of(node).operand_names
        node.args = tuple(
            float(stored) if names.get(item.name, item.name) == name else value
            for item, value in arguments.items()
        )
        return
    target = unique_name(f"{node.name}_{name}_rounded", [item.name for item in mg.nodes])
    set_tensor(mg.model, target, stored.to(mg.constant(given).dtype))
    with mg.fx_graph.inserting_before(node):
        read = mg.fx_graph.create_node("get_attr", target, name=target)
    read.meta["mase"] = metadata(given)
    node.replace_input_with(given, read)


def _times(number: Format, factor: float, values: Tensor) -> Tensor:
    """Return steps of a format, times a factor, in single precision."""
    return (number.significands(number.encode(values))[0].double() * factor).float()


def _behind(
    mg: MaseGraph,
    node: Node,
    role: str,
    given: TensorSpec,
    result: TensorSpec,
    arguments: Arguments,
) -> Node:
    """Insert an operator behind a node, for all that reads it."""
    users = list(node.users)
    inserted = insert_after(mg, node, role, given, result, arguments)
    for user in users:
        user.replace_input_with(node, inserted)
    return inserted


def _plan(mg: MaseGraph, node: Node) -> _Plan | None:
    """Return how a node computes with exact values; None where it needs none, or has none."""
    if node.op != "call_function" or common(node).operator is None or len(node.users) == 0:
        return None
    operator, known = operator_of(node), common(node)
    specs = (*known.operands.values(), *known.results.values())
    if operator.role or _is_move(operator) or len(known.results) != 1:
        return None
    formats = [spec.format for spec in specs]
    families = {None if number is None else family_of(type(number)) for number in formats}
    if None in families or families <= FIXED_POINT:
        return None
    call = mg.call(node)
    if not operator.problems(call):
        return None
    steps = partial(_in_steps, exact=metadata(node).exact)
    for find in (_ordered, _as_floats, steps, _products, _exact):
        found = find(operator, call)
        if found is not None and not operator.problems(
            call.with_formats({**found.operands, "data_out_0": found.result})
        ):
            return found
    return None


def _ordered(operator: Operator, call: Call) -> _Plan | None:
    """Return how an operator compares places of floats."""
    floats = {exact_float(spec.quantized) for spec in call.streams.values()}
    number = floats.pop()
    if not isinstance(operator, Selecting) or number is None or floats or call.constants:
        return None
    layout = number.layout
    places = fixed_of(layout.width, 0)
    assert places is not None
    shape = layout.width, layout.exponent_width, layout.bias
    own = Numeric.of(operator).result_format(call)
    return _Plan(
        dict.fromkeys(call.streams, places),
        own or places,
        ORDER,
        dict.fromkeys(call.streams, number),
        None if own else number,
        dict.fromkeys(call.streams, (*shape, False)),
        (*shape, True),
    )


def _as_floats(operator: Operator, call: Call) -> _Plan | None:
    """Return how an operator joins elements as floats that hold each with its scale."""
    floats = {exact_float(spec.quantized) for spec in call.operands.values()}
    number = floats.pop()
    if not Numeric.of(operator).keeps_format or number is None or floats:
        return None
    if any(not _fits(call.operands[name].quantized, item) for name, item in call.constants.items()):
        return None
    rounded: dict[str, Stored] = {
        name: call.operands[name].quantized.round_values for name in call.constants
    }
    return _Plan(dict.fromkeys(call.operands, number), number, rounded=rounded)


def _in_steps(operator: Operator, call: Call, exact: bool) -> _Plan | None:
    """Return how an operator computes with steps of the scale of its result.

    Args:
        operator: what computes.
        call: its call.
        exact: whether results must be the codes of the exact numbers.
    """
    own = Numeric.of(operator).result_format(call)
    tensors = [*call.operands.values(), *(() if own else (call.result,))]
    numbers = [spec.quantized for spec in tensors]
    if not Exact.of(operator).homogeneous or not all(map(has_scale, numbers)):
        return None
    if call.constants and not isinstance(operator, Summing):
        return None
    scale = float(numbers[-1].real_scale)
    bits = _proved_bits(operator, call) if exact else 0
    if bits is None:
        return None
    return _stepped(operator, call, dict.fromkeys(call.operands, scale), bits, own)


def _stepped(
    operator: Operator, call: Call, scales: Mapping[str, float], bits: int, own: Format | None
) -> _Plan | None:
    """Return how an operator computes with steps of such scales, and gives steps of its result's.

    Args:
        operator: what computes.
        call: its call.
        scales: by operand; others are in fixed point as they are.
        bits: of the quotients of scales.
        own: format of results that are no steps.
    """
    operands = dict[str, Format]()
    there, rounded = dict[str, Arguments](), dict[str, Stored]()
    for name, spec in call.operands.items():
        if name not in scales:
            continue
        found = _in_steps_of(spec, scales[name], bits)
        if found is None:
            return None
        operands[name], there[name] = found, (scales[name], False, bits)
        if name in call.constants:
            factor = float(spec.quantized.real_scale / Fraction(scales[name]))
            rounded[name] = partial(_times, spec.quantized, factor)
    # Halves of a step have one fraction bit.
    result = own or Exact.of(operator).exact_result(call.with_formats(operands), 1)
    if result is None:
        return None
    taken = {name: call.operands[name].quantized for name in scales if name in call.streams}
    asked = call.result.quantized
    behind = asked if own is None and has_scale(asked) else None
    last = (float(asked.real_scale), True) if behind else ()
    return _Plan(operands, result, STEPS, taken, behind, there, last, rounded)


def _products(operator: Operator, call: Call) -> _Plan | None:
    """Return how an operator multiplies steps, of which one operand's hold the quotient of scales.

    The steps of the other one are its own. The quotient has so many bits that every sum of products
    gets the code of the exact number.
    """
    if not isinstance(operator, Multiplying) or len(call.operands) != FACTORS:
        return None
    numbers = {name: spec.quantized for name, spec in call.operands.items()}
    # A stream of integers with a scale is first; a constant is last.
    first, second = sorted(
        numbers, key=lambda name: (name in call.constants, not has_scale(numbers[name]))
    )
    given, other, result = numbers[first], numbers[second], call.result.quantized
    known = all(is_binary(item) or has_scale(item) for item in (other, result))
    if not has_scale(given) or not known or first in call.constants:
        return None
    scales = {first: float(result.real_scale / other.real_scale), second: float(other.real_scale)}
    if is_binary(other):
        del scales[second]
    ends = [_range_of(call.operands[name].quantized, 1) for name in call.operands]
    sums = [a * b * operator.products(call) for a, b in product(*ends)]
    units = step_sizes(other)[0] / step_sizes(result)[0]
    exact = Part(step_sizes(given)[0] * units, min(sums), max(sums))
    rest = units * result.real_scale / other.real_scale
    for bits in range(FEWEST_BITS, MOST_STEP_BITS + 1):
        factor, shift = step_quotient(given, scales[first], bits)
        if same_steps(exact, factor * Fraction(2) ** -shift * rest, result):
            return _stepped(operator, call, scales, bits, None)
    return None


def _proved_bits(operator: Operator, call: Call) -> int | None:
    """Return the bits of the quotients of scales with which every result gets its exact code.

    None where there are none, or nobody says what the operator adds up.
    """
    result = call.result.quantized
    ratios = {
        name: spec.quantized.real_scale / result.real_scale for name, spec in call.operands.items()
    }
    if set(ratios.values()) == {1}:
        return 0
    if not isinstance(operator, Summing):
        return None
    found = FEWEST_BITS
    if call.constants:
        return _bits_beside_constant(operator, call, ratios)
    for counts, divisor in operator.added(call):
        parts = [
            Part(ratios[name], *_range_of(call.operands[name].quantized, count))
            for name, count in counts.items()
        ]
        bits = exact_step_bits(parts, divisor, result, found, MOST_STEP_BITS)
        if bits is None:
            return None
        found = max(found, bits)
    return found


def _bits_beside_constant(
    operator: Summing, call: Call, ratios: Mapping[str, Fraction]
) -> int | None:
    """Return the bits of the quotient of a stream's scale, beside what stands for a constant."""
    ((constant, values),), ((stream, spec),) = call.constants.items(), call.streams.items()
    ((counts, _),), result = operator.added(call), call.result.quantized
    number, ratio = call.operands[constant].quantized, ratios[constant]
    wholes = sorted({*number.significands(number.encode(values))[0].flatten().tolist()})
    offsets = [counts[constant] * ratio * whole for whole in wholes]
    sums = Part(ratios[stream], *_range_of(spec.quantized, counts[stream]))
    scale = float(result.real_scale)
    for bits in range(FEWEST_BITS, MOST_STEP_BITS + 1):
        held = _in_steps_of(call.operands[constant], scale, bits)
        if held is None:
            return None
        reals = torch.tensor(wholes, dtype=torch.float64) * float(ratio)
        kept = held.decode(held.encode(reals.float()))
        stored = [counts[constant] * Fraction(real) for real in kept.tolist()]
        if same_steps(sums, dyadic_near(sums.ratio, bits), result, offsets, stored):
            return bits
    return None


def _in_steps_of(spec: TensorSpec, scale: float, bits: int) -> Format | None:
    """Return the format of a tensor in steps of a scale."""
    steps = operator_for_role(STEPS)
    said: dict[str, Any] = {"scale": scale, "back": False, "bits": bits}
    return Numeric.of(steps).result_format(Call("", steps, {"data_in_0": spec}, {}, {}, said))


def _range_of(number: Format, count: int) -> tuple[int, int]:
    """Return the least and the largest sum of so many steps from zero; less than 0 subtracts."""
    low, high = sorted(count * end for end in ends_in_steps(number))
    return low, high


def _exact(operator: Operator, call: Call) -> _Plan | None:
    """Return how an operator computes in fixed point."""
    operands = {name: exact_fixed(spec.quantized) for name, spec in call.streams.items()}
    rounded = dict[str, Stored]()
    for name, values in call.constants.items():
        number = call.operands[name].quantized
        if is_binary(number):
            continue
        if isinstance(operator, Prepared) or not _fits(number, values):
            return None
        operands[name], rounded[name] = exact_fixed_of(number, values), number.round_values
    if None in operands.values():
        return None
    found: dict[str, Format] = {name: item for name, item in operands.items() if item is not None}
    own, result = Numeric.of(operator).result_format(call), call.result.quantized
    rounds = own is None and has_scale(result)
    if own is None:
        bits = (0, MEAN_BITS) if rounds else exact_bits(result)
        if bits is None:
            return None
        own = Exact.of(operator).exact_result(call.with_formats(found), bits[1] + 1)
    return None if own is None else _Plan(found, own, rounded=rounded, rounds=rounds)


def _fits(number: Format, values: Tensor) -> bool:
    """Return whether the blocks of a constant lie along a dimension that it has."""
    axis = number.blocking[1] if isinstance(number, BlockFormat) else -1
    return -max(1, values.dim()) <= axis < max(1, values.dim())


def _is_move(operator: Operator) -> bool:
    return Numeric.of(operator).keeps_format and not operator.casts


def _takes(node: Node) -> bool:
    """Return whether a node takes its producer's format, which is known."""
    if node.op != "call_function" or common(node).operator is None:
        return False
    operator = operator_of(node)
    known = all(spec.format is not None for spec in common(node).operands.values())
    return known and _is_move(operator) and operator.role is None


def _moves(node: Node, operator: Operator) -> bool:
    return common(node).operands["data_in_0"].quantized.name in operator.formats


def _common_format(node: Node) -> Format:
    """Return the one format of all that a node moves."""
    given = [common(producer).results["data_out_0"] for _, producer in stream_operands(node)]
    formats = {spec.format for spec in given}
    (number,) = formats if len(formats) == 1 else (None,)
    if number is None or number.name not in operator_of(node).formats:
        number = common(node).operands["data_in_0"].format
    assert number is not None
    return number


def _bridge(node: Node, number: Format) -> Format:
    if (found := exact_float(number)) is not None:
        return found
    bits = sum(item.width_bits for item in number.stream_fields(1))
    return format_class(DEFAULT_FORMAT).fit(*observed_range(node, "data_in_0"), width=bits)


def _set(node: Node, number: Format) -> None:
    known = common(node)
    operands = {name: spec.with_format(number) for name, spec in known.operands.items()}
    results = {name: spec.with_format(number) for name, spec in known.results.items()}
    update(node, common=replace(known, operands=operands, results=results))


def _return_as(mg: MaseGraph, node: Node, asked: Format | None) -> None:
    """Cast what leaves the graph to the format that was asked for."""
    given = common(node).results["data_out_0"]
    if asked is None or given.format == asked:
        return
    readers = [user for user in node.users if user.op == "output"]
    if readers:
        cast = insert_after(mg, node, ROLE, given, given.with_format(asked))
        for user in readers:
            user.replace_input_with(node, cast)
