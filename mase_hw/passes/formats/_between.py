"""Formats of real numbers that stand between roundings of a model: exact, or much finer steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.arithmetic.carriers import fixed_of
from mase_hw.arithmetic.requantize import scales, whole
from mase_hw.formats import Format
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import MAX_WIDTH_BITS, ScaledInteger
from mase_hw.graph.calls import aten_arguments
from mase_hw.ops import Call, Elementwise, Exact, Multiplying, Numeric, Weighted

# Codes that are tried one by one.
MOST_TRIED_BITS = 12
# Bits of what is approximated and rounded later, and fraction bits that rows have beside it.
FINE_BITS, FINE_FRACTION = 24, 13
# Bits of what is compared with thresholds.
COMPARED_BITS = 32
# Bits of the unit of a constant that stands for it exactly.
CONSTANT_BITS = 32


def format_between(node: Node, call: Call, given: Mapping[str, Format]) -> dict[str, Format]:
    """Return the formats in which a node computes the exact numbers of rounded operands.

    A function that is approximated has steps that are much finer than those of its operand.

    Args:
        node: the node.
        call: its call.
        given: the formats of all its streams and of constants that the model rounds.

    Returns:
        Of its result and of its other constants; nothing where there are no such formats.
    """
    numbers = [*given.values()]
    if not all(isinstance(item, Fixed | ScaledInteger) for item in numbers):
        return {}
    if any(len(scales(given[name])) > 1 for name in call.streams):
        return {}
    own = Numeric.of(call.operator).result_format(call)
    if own is not None:
        return {"data_out_0": own}
    if isinstance(call.operator, Elementwise) and [*call.operands] == ["data_in_0"]:
        return _tabulated(node, call, given["data_in_0"])
    constants: dict[str, Format] = {}
    for name, values in call.constants.items():
        found = given.get(name) or exact_constant(values, numbers)
        if found is None:
            return {}
        constants[name] = found
    every = {**given, **constants}
    if isinstance(call.operator, Weighted) and "weight" in constants:
        result: Format | None = _sums(call, every)
    else:
        result = _combined(call, every)
    return {} if result is None else {**constants, "data_out_0": result}


def common_grid(numbers: Sequence[Format]) -> Format | None:
    """Return integers that are the values of several formats; None where they take too many bits.

    Args:
        numbers: fixed point, or integers with one scale each.
    """
    if not all(isinstance(item, Fixed | ScaledInteger) for item in numbers):
        return None
    if any(len(scales(item)) > 1 for item in numbers):
        return None
    steps = [scales(item)[0] for item in numbers]
    # Whole multiples of the one unit that divides all of them.
    unit = Fraction(
        math.gcd(*(step.numerator for step in steps)),
        math.lcm(*(step.denominator for step in steps)),
    )
    unit = Fraction(
        math.gcd(*(int(step / unit) for step in steps)) * unit.numerator, unit.denominator
    )
    reach = max(
        max(map(abs, _ends(item))) * int(step / unit)
        for item, step in zip(numbers, steps, strict=True)
    )
    width = reach.bit_length() + 1
    if width > MAX_WIDTH_BITS or Fraction(float(unit)) != unit:
        return None
    if unit.numerator == 1 and unit.denominator & (unit.denominator - 1) == 0:
        return fixed_of(max(2, width), unit.denominator.bit_length() - 1)
    return ScaledInteger(max(2, width), float(unit))


def exact_constant(values: Tensor, given: Iterable[Format]) -> Format | None:
    """Return the narrowest format that holds real constants exactly; None for too many bits.

    Args:
        values: the constants.
        given: formats of the streams beside them.
    """
    work = values.detach().float().double().reshape(-1)
    if not work.numel() or not bool(work.isfinite().all()):
        return None
    fixed_point = all(isinstance(item, Fixed) for item in given)
    sizes = work[work != 0].abs().unique().tolist()
    if not fixed_point and len(sizes) == 1:
        return ScaledInteger(2, sizes[0])
    for fraction in range(CONSTANT_BITS + 1):
        steps = work * 2.0**fraction
        width = max(2, int(steps.abs().max()).bit_length() + 1)
        if torch.equal(steps, steps.round()) and width <= CONSTANT_BITS:
            unit = 2.0**-fraction
            return Fixed(width, fraction) if fixed_point else ScaledInteger(width, unit)
    return None


def compared_formats(call: Call, given: Mapping[str, Format]) -> dict[str, Format]:
    """Return the formats of a comparison with thresholds: of sums too, where none is given."""
    bounds = call.constants["bounds"].double()
    whole_bits = max(0, math.frexp(float(bounds.abs().max()))[1])
    wide = Fixed(COMPARED_BITS, COMPARED_BITS - 2 - whole_bits, rounding="floor")
    number = given.get("data_in_0", wide)
    found: dict[str, Format] = {"bounds": replace(wide, rounding="nearest_even")}
    found["signs"] = Fixed(2, 0)
    return {**found, "data_in_0": number if isinstance(number, Fixed) else wide}


def _tabulated(node: Node, call: Call, number: Format) -> dict[str, Format]:
    """Return a format of the results of all codes of a format."""
    assert isinstance(number, Fixed | ScaledInteger)
    if number.width > MOST_TRIED_BITS or number.name not in call.operator.formats:
        return {}
    low, high = number.encode(torch.tensor([-math.inf, math.inf])).tolist()
    operands = {"data_in_0": number.decode(torch.arange(low, high + 1))}
    values = call.operator.compute(node.target, aten_arguments(node), operands).double()
    if not bool(values.isfinite().all()):
        return {}
    step = float(scales(number)[0])
    steps = (values / step).round()
    if torch.equal(steps * step, values):
        exact = _of_unit(number, 1.0, int(steps.abs().max()).bit_length() + 1)
        return {} if exact is None else {"data_out_0": exact}
    if not Numeric.of(call.operator).approximates:
        return {}
    whole_bits = math.frexp(float(values.abs().max()) or 1.0)[1]
    return {"data_out_0": Fixed(FINE_BITS, FINE_BITS - 1 - whole_bits)}


def _of_unit(number: Fixed | ScaledInteger, unit: float, width: int) -> Format | None:
    """Return numbers with a sign in multiples of a unit, in steps of a format."""
    if width > MAX_WIDTH_BITS:
        return None
    if isinstance(number, Fixed):
        return fixed_of(max(2, width), number.frac_width - round(math.log2(unit)))
    return ScaledInteger(max(2, width), float(number.real_scale) * unit)


def _sums(call: Call, every: Mapping[str, Format]) -> Format | None:
    """Return the format of the sums of products of a stream with constant weights."""
    streams = [every[name] for name in call.streams]
    weight, bias = every["weight"], every.get("bias")
    if len(streams) != 1 or len(scales(weight)) > 1:
        return None
    (data,) = streams
    assert isinstance(data, Fixed | ScaledInteger)
    unit = scales(data)[0] * scales(weight)[0]
    values = call.constants["weight"]
    codes = weight.significands(weight.encode(values))[0].abs()
    reach = max(map(abs, _ends(data)))
    axis = Weighted.of(call.operator).result_axis
    # Of transposed layers some products belong to other results.
    largest = int(codes.movedim(axis, 0).flatten(1).sum(1).max()) * reach
    if bias is not None:
        steps = call.constants["bias"].double() / float(unit)
        if not torch.equal(steps.round() * float(unit), call.constants["bias"].double()):
            return None
        largest += int(steps.abs().max())
    if isinstance(data, Fixed) and isinstance(weight, Fixed):
        width = largest.bit_length() + 1
        return fixed_of(max(2, width), data.frac_width + weight.frac_width)
    width = largest.bit_length() + 1
    return None if width > MAX_WIDTH_BITS else ScaledInteger(width, float(unit))


def _combined(call: Call, every: Mapping[str, Format]) -> Format | None:
    """Return the format of what is exact in fixed point, in steps where scales are real."""
    operator, numbers = call.operator, [*every.values()]
    if not isinstance(operator, Exact):
        return None
    if all(isinstance(item, Fixed) for item in numbers):
        return operator.exact_result(_with(call, every), FINE_FRACTION)
    units = {name: scales(item)[0] for name, item in every.items()}
    steps: dict[str, Format] = {name: whole(item) for name, item in every.items()}
    if isinstance(operator, Multiplying):
        unit = math.prod(units.values())
    elif operator.homogeneous and len({*units.values()}) == 1:
        (unit,) = {*units.values()}
    else:
        return None
    result = operator.exact_result(_with(call, steps), FINE_FRACTION)
    if not isinstance(result, Fixed) or result.width > MAX_WIDTH_BITS:
        return None
    return ScaledInteger(result.width, float(unit) * 2.0**-result.frac_width)


def _with(call: Call, formats: Mapping[str, Format]) -> Call:
    specs = {name: spec.with_format(formats[name]) for name, spec in call.operands.items()}
    return replace(call, operands=specs)


def _ends(number: Format) -> tuple[int, int]:
    ends = number.encode(torch.tensor([-math.inf, math.inf]))
    low, high = number.significands(ends)[0].tolist()
    return low, high
