"""Formats of real numbers that stand between roundings of a model: exact, or much finer steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.arithmetic.exact_formats import (
    COMPARED_BITS,
    compared,
    ends_in_steps,
    exact_constant,
    has_steps,
    is_binary,
    multiples,
    reaching,
    whole_numbers,
)
from mase_hw.arithmetic.requantize import scales, whole
from mase_hw.formats import Format
from mase_hw.graph.nodes import aten_arguments
from mase_hw.ops import Call, Elementwise, Exact, Multiplying, Numeric, Weighted

# Codes that are tried one by one.
MOST_TRIED_BITS = 12
# Bits of what is approximated and rounded later; fraction bits that rows have beside it, at least,
# and beside those of what they are rounded to.
FINE_BITS, FINE_FRACTION, STEP_BITS = 24, 13, 7
# How far beyond all finite values that a function takes its format reaches for infinite ones.
BEYOND = 8.0
# Codes of a wide format that are tried; how far its function may reach beyond most of its values.
TRIED, REACH = 1 << 12, 2.0**12


def format_between(
    node: Node, call: Call, formats: Mapping[str, Format], step: float
) -> dict[str, Format]:
    """Formats in which a node computes the exact numbers of rounded operands.

    A function that is approximated has steps that are much finer than those of its operand.

    Args:
        node: the node.
        call: its call.
        formats: those of all its streams and of constants that the model rounds.
        step: the least to which what is computed of it is rounded.

    Returns:
        Of its result and of its other constants; nothing where there are no such formats.
    """
    numbers = [*formats.values()]
    if not all(map(has_steps, numbers)) or any(len(scales(formats[n])) > 1 for n in call.streams):
        return {}
    own = Numeric.of(call.operator).result_format(call)
    if own is not None:
        return {"data_out_0": own}
    if isinstance(call.operator, Elementwise) and [*call.operands] == ["data_in_0"]:
        found = _tabulated(node, call, formats["data_in_0"], step)
        if found or not isinstance(call.operator, Exact):
            return found
    constants: dict[str, Format] = {}
    for name, values in call.constants.items():
        number = formats.get(name) or exact_constant(values, numbers)
        if number is None:
            return {}
        constants[name] = number
    every = {**formats, **constants}
    if isinstance(call.operator, Weighted) and "weight" in constants:
        result: Format | None = _sums(call, every)
    else:
        fraction = max(FINE_FRACTION, STEP_BITS - math.floor(math.log2(step)))
        result = _combined(call, every, fraction)
    return {} if result is None else {**constants, "data_out_0": result}


def compared_formats(call: Call, formats: Mapping[str, Format]) -> dict[str, Format]:
    """Formats of a comparison with thresholds: of sums too, where none is given."""
    bounds = call.constants["bounds"].double()
    number = formats.get("data_in_0")
    return {
        "bounds": reaching(max(1.0, float(bounds.abs().max())), COMPARED_BITS),
        "signs": whole_numbers(2),
        "data_in_0": number if is_binary(number) else compared(bounds),
    }


def _tabulated(node: Node, call: Call, number: Format, step: float) -> dict[str, Format]:
    if not has_steps(number) or number.name not in call.operator.formats:
        return {}
    low, high = number.encode(torch.tensor([-math.inf, math.inf])).tolist()
    wide = number.width > MOST_TRIED_BITS
    codes = torch.arange(low, high + 1) if not wide else _samples(low, high)
    operands = {"data_in_0": number.decode(codes)}
    values = call.operator.compute(node.target, aten_arguments(node), operands).double()
    finite = values[values.isfinite()]
    if wide:
        return _of_wide(call, number, values, step)
    if bool(values.isnan().any()) or not finite.numel():
        return {}
    if finite.numel() < values.numel():
        # What is infinite saturates, beyond all finite numbers.
        return {"data_out_0": reaching(BEYOND * float(finite.abs().max()), FINE_BITS)}
    unit = float(scales(number)[0])
    steps = (values / unit).round()
    if torch.equal(steps * unit, values):
        width = int(steps.abs().max()).bit_length() + 1
        exact = multiples(scales(number)[0], width, binary=is_binary(number))
        return {} if exact is None else {"data_out_0": exact}
    if not Numeric.of(call.operator).approximates:
        return {}
    return {"data_out_0": reaching(float(values.abs().max()), FINE_BITS)}


def _samples(low: int, high: int) -> Tensor:
    """Return codes `[pairs, 2]`, flat, of neighbours: over the range, at its ends and around 0."""
    spread = torch.linspace(low, high - 1, TRIED, dtype=torch.float64).long()
    near = torch.tensor([-1, 0]).clamp(low, high - 1)
    first = torch.cat([spread, near])
    return torch.stack([first, first + 1], dim=1).flatten()


def _of_wide(call: Call, number: Format, values: Tensor, step: float) -> dict[str, Format]:
    """Return the format of a function of many codes, in steps that suit most of its values.

    There is none where the function tells codes apart, or has steps, that are coarse beside the
    rounding behind it: the operand may be known to a code alone.

    Args:
        call: the function.
        number: the format of its operand.
        values: of the codes that `_samples` gives.
        step: to which what is computed of it is rounded.
    """
    fine = step * 2.0 ** -(STEP_BITS + 1)
    sizes, changes = values[values != 0].abs(), values.reshape(-1, 2).diff().abs()
    if not is_binary(number) or not sizes.numel() or not sizes.max() <= REACH * sizes.median():
        return {}
    if not changes.max() <= fine:
        return {}
    largest = sizes.max()
    for bits in (FINE_BITS + 4, FINE_BITS, FINE_BITS - 4):
        result = reaching(float(largest), bits)
        formats = {"data_in_0": number, "data_out_0": result}
        if scales(result)[0] <= fine and not call.operator.problems(call.with_formats(formats)):
            return {"data_out_0": result}
    return {}


def _sums(call: Call, every: Mapping[str, Format]) -> Format | None:
    streams = [every[name] for name in call.streams]
    weight, bias = every["weight"], every.get("bias")
    if len(streams) != 1 or len(scales(weight)) > 1:
        return None
    (data,) = streams
    unit = scales(data)[0] * scales(weight)[0]
    values = call.constants["weight"]
    codes = weight.significands(weight.encode(values))[0].abs()
    reach = max(map(abs, ends_in_steps(data)))
    axis = Weighted.of(call.operator).result_axis
    # Of transposed layers some products belong to other results.
    largest = int(codes.movedim(axis, 0).flatten(1).sum(1).max()) * reach
    if bias is not None:
        steps = call.constants["bias"].double() / float(unit)
        if not torch.equal(steps.round() * float(unit), call.constants["bias"].double()):
            return None
        largest += int(steps.abs().max())
    binary = is_binary(data) and is_binary(weight)
    return multiples(unit, largest.bit_length() + 1, binary=binary)


def _combined(call: Call, every: Mapping[str, Format], fraction: int) -> Format | None:
    """Format of what is exact in fixed point, in steps where scales are real."""
    operator, numbers = call.operator, [*every.values()]
    if not isinstance(operator, Exact):
        return None
    if all(map(is_binary, numbers)):
        return operator.exact_result(call.with_formats(every), fraction)
    units = {name: scales(item)[0] for name, item in every.items()}
    steps: dict[str, Format] = {name: whole(item) for name, item in every.items()}
    if isinstance(operator, Multiplying):
        unit = math.prod(units.values())
    elif operator.homogeneous and len({*units.values()}) == 1:
        (unit,) = {*units.values()}
    else:
        return None
    result = operator.exact_result(call.with_formats(steps), fraction)
    if not is_binary(result):
        return None
    return multiples(unit * Fraction(2) ** -result.frac_width, result.width, binary=False)
