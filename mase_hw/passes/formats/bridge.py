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
from mase_hw.arithmetic.requantize import scale_bits, step_quotient
from mase_hw.arithmetic.requantize import scales as step_sizes
from mase_hw.formats import (
    DEFAULT_FORMAT,
    FIXED_POINT,
    BlockFormat,
    Format,
    family_of,
    format_class,
)
from mase_hw.geometry.blocks import block_axis, is_block
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import (
    common,
    free_name,
    insert_after,
    insert_behind,
    is_cast,
    metadata,
    operator_at,
    operator_of,
    read_constant,
    refresh_output,
    result_dtype,
    set_format,
    set_formats,
    stream_operands,
    tensor_arguments,
    update,
)
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
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.formats.edges import ROLE, insert_casts_transform_pass
from mase_hw.passes.formats.quantize import observed_range

ORDER, STEPS, ROUNDING = "order", "steps", "rounding"
# Fraction bits that means have beyond their elements before integers with a scale are made of them.
MEAN_BITS = 20
# Bits of a quotient of scales that are tried.
FEWEST_BITS, MOST_STEP_BITS = 18, 40
FACTORS = 2

Arguments = tuple[float | list[int] | list[float], ...]
Stored = Callable[[Tensor], Tensor]


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
    plans = {node.name: plan for node in mg.nodes if (plan := _plan(mg, node)) is not None}
    turned = {node.name: number for node in mg.nodes if (number := _turned(node)) is not None}
    moving = {node.name for node in mg.nodes if _moves(node)}
    if all(map(_has_hardware, map(mg.node, moving))):
        moving = set()
    if not moving and not plans and not turned:
        return mg, {"bridged": []}
    mg = mg.copy()
    # Outputs ask for the formats that they have now.
    refresh_output(mg.model)
    bridged = []
    for node in mg.nodes:
        if node.name in plans or node.name in turned:
            bridged.append(node.name)
        if node.name in plans:
            plans[node.name].carry(mg, node)
        elif node.name in turned:
            asked = common(node).results["data_out_0"]
            between = asked.with_format(turned[node.name])
            set_formats(node, {}, {"data_out_0": between.format})
            insert_behind(node, ROLE, between, asked)
        elif node.name in moving:
            number = _common_format(node)
            if number.name not in operator_of(node).formats:
                number = _carrier(node, number)
                bridged.append(node.name)
            set_format(node, number)
    mg, _ = insert_casts_transform_pass(mg, {})
    return mg, {"bridged": bridged}


def _turned(node: Node) -> Format | None:
    """Floats through which blocks are cast to blocks along another dimension."""
    if not is_cast(node):
        return None
    (data,), (result,) = common(node).operands.values(), common(node).results.values()
    blocks = None not in (data.format, result.format) and is_block(data) and is_block(result)
    turns = blocks and block_axis(data) != block_axis(result)
    return exact_float(data.quantized) if turns else None


@dataclass(frozen=True)
class _Plan:
    """How a node computes with exact values.

    Attributes:
        operands: their formats.
        result: that of the result.
        role: of what stands before operands, and before results are what was asked for; None where
            casts do.
        taken: the format that it takes, by operand.
        gives: the format of what it gives behind the result; None where it does not stand there.
        before: its other arguments, before each operand.
        behind: its other arguments, behind the result.
        rounded: from constants to what is stored in their place.
        rounds: whether codes of the exact numbers are proved behind the result.
    """

    operands: Mapping[str, Format]
    result: Format
    role: str | None = None
    taken: Mapping[str, Format] = field(default_factory=dict)
    gives: Format | None = None
    before: Mapping[str, Arguments] = field(default_factory=dict)
    behind: Arguments = ()
    rounded: Mapping[str, Stored] = field(default_factory=dict)
    rounds: bool = False

    def carry(self, mg: MaseGraph, node: Node) -> None:
        """Give a node these formats, and insert what stands before and behind it."""
        asked = common(node).results["data_out_0"]
        specs = common(node).operands
        set_formats(node, self.operands, {"data_out_0": self.result})
        for name, stored in self.rounded.items():
            _store_constant(mg, node, name, stored)
        last, result = node, asked.with_format(self.result)
        if self.role is not None:
            self._convert_operands(mg, node, specs)
            if self.gives is not None:
                inner, result = result, asked.with_format(self.gives)
                last = insert_behind(last, self.role, inner, result, self.behind)
        if result.format != asked.format:
            number, levels = asked.quantized, Arguments()
            if self.rounds:
                assert has_scale(number)
                levels = [*number.scales], [*number.zero_points], 0, *number.code_range
            insert_behind(last, ROUNDING if self.rounds else ROLE, result, asked, levels)

    def _convert_operands(self, mg: MaseGraph, node: Node, specs: Mapping[str, TensorSpec]) -> None:
        assert self.role is not None
        tensors, streams = common(node), stream_operands(node)
        operands = dict(tensors.operands)
        # One stream may be several operands, each in steps of its own.
        converted, taking = dict[tuple[object, ...], Node](), []
        for name, producer in streams:
            key = producer, self.before.get(name), operands[name].format
            if name in self.taken:
                operand, arguments = specs[name].with_format(self.taken[name]), self.before[name]
                dtype = result_dtype(self.role, operand, arguments)
                operands[name] = replace(operands[name], dtype=dtype)
                if key not in converted:
                    converted[key] = insert_after(
                        producer, self.role, operand, operands[name], arguments
                    )
            taking.append(converted.get(key, producer))
        left = iter(taking)
        node.args, node.kwargs = map_arg(
            (node.args, node.kwargs), lambda item: item if item.op == "get_attr" else next(left)
        )
        update(node, common=replace(tensors, operands=operands))


def _store_constant(mg: MaseGraph, node: Node, name: str, function: Stored) -> None:
    constant = dict(tensor_arguments(node))[name]
    stored = function(mg.call(node).constants[name])
    if isinstance(constant, Node):
        target = free_name(node, f"{node.name}_{name}_rounded")
        dtype = mg.constant(constant).dtype
        values = stored if stored.dtype is torch.float64 else stored.to(dtype)
        node.replace_input_with(
            constant, read_constant(mg.model, node, target, values, metadata(constant))
        )
        return
    arguments = zip(node.target._schema.arguments, node.args, strict=False)  # type: ignore[union-attr]
    names = operator_of(node).operand_names
    node.args = tuple(
        float(stored) if names.get(item.name, item.name) == name else value
        for item, value in arguments
    )


def _times(number: Format, factor: float, values: Tensor) -> Tensor:
    return (number.significands(number.encode(values))[0].double() * factor).float()


def _plan(mg: MaseGraph, node: Node) -> _Plan | None:
    """How a node computes with exact values; None where it needs none, or has none."""
    operator = operator_at(node)
    if operator is None or operator.role or _is_move(operator) or not node.users:
        return None
    tensors = common(node)
    formats = [spec.format for spec in (*tensors.operands.values(), *tensors.results.values())]
    families = {None if number is None else family_of(type(number)) for number in formats}
    if len(tensors.results) != 1 or None in families or families <= FIXED_POINT:
        return None
    call = mg.call(node)
    if not operator.problems(call):
        return None
    steps = partial(_in_steps, exact=metadata(node).exact)
    for find in (_ordered, _as_floats, steps, _products, _exact):
        plan = find(operator, call)
        if plan is not None and not operator.problems(
            call.with_formats({**plan.operands, "data_out_0": plan.result})
        ):
            return plan
    return None


def _ordered(operator: Operator, call: Call) -> _Plan | None:
    """Compare places of floats."""
    number, *others = {exact_float(spec.quantized) for spec in call.streams.values()}
    if not isinstance(operator, Selecting) or number is None or others or call.constants:
        return None
    layout, streams = number.layout, [*call.streams]
    places = fixed_of(layout.width, 0)
    assert places is not None
    shape = layout.width, layout.exponent_width, layout.bias
    own = Numeric.of(operator).result_format(call)
    return _Plan(
        operands=dict.fromkeys(streams, places),
        result=own or places,
        role=ORDER,
        taken=dict.fromkeys(streams, number),
        gives=None if own else number,
        before=dict.fromkeys(streams, (*shape, False)),
        behind=(*shape, True),
    )


def _as_floats(operator: Operator, call: Call) -> _Plan | None:
    """Join elements as floats that hold each with its scale."""
    number, *others = {exact_float(spec.quantized) for spec in call.operands.values()}
    if not Numeric.of(operator).keeps_format or number is None or others:
        return None
    formats = {name: call.operands[name].quantized for name in call.constants}
    if not all(_fits(formats[name], item) for name, item in call.constants.items()):
        return None
    rounded: dict[str, Stored] = {name: item.round_values for name, item in formats.items()}
    return _Plan(dict.fromkeys(call.operands, number), number, rounded=rounded)


def _in_steps(operator: Operator, call: Call, exact: bool) -> _Plan | None:
    """Compute with steps of the scale of the result; `exact` for the codes of exact numbers."""
    own = Numeric.of(operator).result_format(call)
    names = [name for name in call.operands if not Numeric.of(operator).operand_format(call, name)]
    tensors = [*(call.operands[name] for name in names), *(() if own else (call.result,))]
    numbers = [spec.quantized for spec in tensors]
    if not Exact.of(operator).homogeneous or not all(map(has_scale, numbers)):
        return None
    alike = len({item.real_scale for item in numbers}) == 1
    if call.constants.keys() & {*names} and not (alike or isinstance(operator, Summing)):
        return None
    bits = _proved_bits(operator, call) if exact and not alike else 0
    scales = dict.fromkeys(names, float(numbers[-1].real_scale))
    return None if bits is None else _stepped(operator, call, scales, bits, own)


def _stepped(
    operator: Operator, call: Call, scales: Mapping[str, float], bits: int, own: Format | None
) -> _Plan | None:
    """Compute with steps of such scales, and give steps of the result's.

    Args:
        operator: what computes.
        call: its call.
        scales: by operand; others are in fixed point as they are.
        bits: of the quotients of scales.
        own: format of results that are no steps.
    """
    operands: dict[str, Format] = {
        name: item.quantized for name, item in call.operands.items() if name not in scales
    }
    rounded = dict[str, Stored]()
    for name, scale in scales.items():
        spec = call.operands[name]
        steps = _steps_of(spec, scale, bits)
        if steps is None:
            return None
        operands[name] = steps
        if name in call.constants:
            factor = float(spec.quantized.real_scale / Fraction(scale))
            rounded[name] = partial(_times, spec.quantized, factor)
    # Halves of a step have one fraction bit.
    result = own or Exact.of(operator).exact_result(call.with_formats(operands), 1)
    if result is None:
        return None
    asked = call.result.quantized
    gives = asked if own is None and has_scale(asked) else None
    return _Plan(
        operands,
        result,
        STEPS,
        taken={name: call.operands[name].quantized for name in scales if name in call.streams},
        gives=gives,
        before={name: (scale, False, bits) for name, scale in scales.items()},
        behind=(float(gives.real_scale), True) if gives else (),
        rounded=rounded,
    )


def _products(operator: Operator, call: Call) -> _Plan | None:
    """Multiply steps, of which one operand's hold the quotient of scales.

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
    data, other, result = numbers[first], numbers[second], call.result.quantized
    stepped = all(is_binary(item) or has_scale(item) for item in (other, result))
    if not has_scale(data) or not stepped or first in call.constants:
        return None
    scales = {first: float(result.real_scale / other.real_scale)}
    if not is_binary(other):
        scales[second] = float(other.real_scale)
    ends = [_range_of(number, 1) for number in numbers.values()]
    sums = [a * b * operator.products(call) for a, b in product(*ends)]
    units = step_sizes(other)[0] / step_sizes(result)[0]
    exact = Part(step_sizes(data)[0] * units, min(sums), max(sums))
    rest = units * result.real_scale / other.real_scale
    for bits in range(FEWEST_BITS, MOST_STEP_BITS + 1):
        factor, shift = step_quotient(data, scales[first], bits)
        if same_steps(exact, factor * Fraction(2) ** -shift * rest, result):
            return _stepped(operator, call, scales, bits, None)
    return None


def _proved_bits(operator: Operator, call: Call) -> int | None:
    """Bits of the quotients of scales with which every result gets its exact code.

    None where there are none, or nobody says what the operator adds up.
    """
    result = call.result.quantized
    ratios = {
        name: spec.quantized.real_scale / result.real_scale for name, spec in call.operands.items()
    }
    if not isinstance(operator, Summing):
        return None
    if call.constants:
        return _bits_beside_constant(operator, call, ratios)
    most = FEWEST_BITS
    for counts, divisor in operator.added(call):
        parts = [
            Part(ratios[name], *_range_of(call.operands[name].quantized, count))
            for name, count in counts.items()
        ]
        bits = exact_step_bits(parts, divisor, result, most, MOST_STEP_BITS)
        if bits is None:
            return None
        most = max(most, bits)
    return most


def _bits_beside_constant(
    operator: Summing, call: Call, ratios: Mapping[str, Fraction]
) -> int | None:
    """Bits of the quotient of a stream's scale, beside what stands for a constant."""
    ((constant, values),), ((stream, spec),) = call.constants.items(), call.streams.items()
    ((counts, _),), result = operator.added(call), call.result.quantized
    number, ratio = call.operands[constant].quantized, ratios[constant]
    wholes = sorted({*number.significands(number.encode(values))[0].flatten().tolist()})
    offsets = [counts[constant] * ratio * whole for whole in wholes]
    sums = Part(ratios[stream], *_range_of(spec.quantized, counts[stream]))
    reals = torch.tensor(wholes, dtype=torch.float64) * float(ratio)
    for bits in range(FEWEST_BITS, MOST_STEP_BITS + 1):
        steps = _steps_of(call.operands[constant], float(result.real_scale), bits)
        if steps is None:
            return None
        stored = [
            counts[constant] * Fraction(real)
            for real in steps.decode(steps.encode(reals.float())).tolist()
        ]
        if same_steps(sums, dyadic_near(sums.ratio, bits), result, offsets, stored):
            return bits
    return None


def _steps_of(spec: TensorSpec, scale: float, bits: int) -> Format | None:
    steps = operator_for_role(STEPS)
    arguments: dict[str, Any] = {"scale": scale, "back": False, "bits": bits}
    call = Call("", steps, {"data_in_0": spec}, {}, {}, arguments)
    return Numeric.of(steps).result_format(call)


def _range_of(number: Format, count: int) -> tuple[int, int]:
    """Least and largest sum of so many steps from zero; less than 0 subtracts."""
    low, high = sorted(count * end for end in ends_in_steps(number))
    return low, high


def _exact(operator: Operator, call: Call) -> _Plan | None:
    taken = {n: spec.quantized for n, spec in call.streams.items() if has_scale(spec.quantized)}
    others = [spec.quantized for name, spec in call.streams.items() if name not in taken]
    if taken and not all(map(is_binary, others)):
        return None
    before = {name: (1.0, False, scale_bits(number)) for name, number in taken.items()}
    operands = {
        name: _steps_of(spec, 1.0, scale_bits(spec.quantized))
        if name in taken
        else exact_fixed(spec.quantized)
        for name, spec in call.streams.items()
    }
    rounded = dict[str, Stored]()
    for name, values in call.constants.items():
        number = call.operands[name].quantized
        if is_binary(number):
            continue
        if isinstance(operator, Prepared) or not _fits(number, values):
            return None
        operands[name], rounded[name] = exact_fixed_of(number, values), partial(_exactly, number)
    formats: dict[str, Format] = {name: item for name, item in operands.items() if item is not None}
    if len(formats) < len(operands):
        return None
    own, result = Numeric.of(operator).result_format(call), call.result.quantized
    rounds = own is None and has_scale(result)
    if own is None:
        bits = (0, MEAN_BITS) if rounds else exact_bits(result)
        if bits is None:
            return None
        own = Exact.of(operator).exact_result(call.with_formats(formats), bits[1] + 1)
    role = STEPS if taken else None
    return None if own is None else _Plan(
        formats, own, role, taken, before=before, rounded=rounded, rounds=rounds
    )  # fmt: skip


def _exactly(number: Format, values: Tensor) -> Tensor:
    """Return the values of a format's codes: single precision where it holds them."""
    exact = number.decode(number.encode(values))
    single = exact.float()
    return single if torch.equal(single.double(), exact.double()) else exact


def _fits(number: Format, values: Tensor) -> bool:
    """True where the blocks of a constant lie along a dimension that it has."""
    axis = number.blocking[1] if isinstance(number, BlockFormat) else -1
    return -max(1, values.dim()) <= axis < max(1, values.dim())


def _is_move(operator: Operator) -> bool:
    return Numeric.of(operator).keeps_format and not operator.casts


def _moves(node: Node) -> bool:
    """True where a node takes its producer's format, which is known."""
    operator = operator_at(node)
    if operator is None or operator.role is not None or not _is_move(operator):
        return False
    return all(spec.format is not None for spec in common(node).operands.values())


def _has_hardware(node: Node) -> bool:
    return common(node).operands["data_in_0"].quantized.name in operator_of(node).formats


def _common_format(node: Node) -> Format:
    """The one format of all that a node moves, where it has hardware for it; else its own."""
    formats = {common(item).results["data_out_0"].format for _, item in stream_operands(node)}
    number = formats.pop()
    if formats or number is None or number.name not in operator_of(node).formats:
        number = common(node).operands["data_in_0"].format
    assert number is not None
    return number


def _carrier(node: Node, number: Format) -> Format:
    """Float that holds all numbers of a format, or as many bits of fixed point."""
    if (exact := exact_float(number)) is not None:
        return exact
    bits = sum(item.width_bits for item in number.stream_fields(1))
    return format_class(DEFAULT_FORMAT).fit(*observed_range(node, "data_in_0"), width=bits)
