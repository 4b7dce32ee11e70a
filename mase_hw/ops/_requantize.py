"""Integers with a real scale in hardware: exact sums of integers, requantised once.

The sums of `(data - zero) * (weight - zero)` and of the bias are exact, in units of the product of
the scales of data and weight; the bias is rounded to that unit, to nearest even. A result is
`bound(round(sum * m * 2**-s) + zero)`, to nearest even. `m * 2**-s` stands for the product of the
scales over the scale of the result, for each channel of the weight: `m` has `multiplier_bits` bits,
so that its relative error is at most `2**-multiplier_bits`. A result of `width` bits that does not
saturate is then off the exact quotient, before it is rounded, by at most `2**-10` steps
(`2**(width - 24)` beyond 14 bits), and by half a unit of the bias. Fixed point counts as integers
with a scale that is a power of two.

Source: Jacob et al. (2018), arXiv:1712.05877, section 2.2, with one rounding instead of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor

from mase_hw.formats import Format
from mase_hw.formats.fixed import MAX_WIDTH_BITS as MAX_WIDTH_BITS
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.geometry.beats import Cycles
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._base import Call, Hardware, Reference, Source
from mase_hw.ops._scalars import SCALED

MOST_MULTIPLIER_BITS = 24
SHIFT_BITS = 6
REQUANTIZE_CYCLES = 2


def is_scaled(spec: TensorSpec) -> bool:
    """Return whether a tensor is of integers with a real scale."""
    return isinstance(spec.format, ScaledInteger)


def serves(call: Call) -> bool:
    """Return whether an operand or the result has a real scale."""
    return any(map(is_scaled, (*call.operands.values(), call.result)))


def scales(number: Format) -> list[Fraction]:
    """Return the scale of every channel, or the one scale."""
    if isinstance(number, ScaledInteger):
        return [Fraction(scale) for scale in number.scales]
    assert isinstance(number, Fixed)
    return [Fraction(2) ** -number.frac_width]


def multiplier_bits(result: Format) -> int:
    """Return the bits of the multipliers of a result."""
    width = result.width if isinstance(result, ScaledInteger | Fixed) else MOST_MULTIPLIER_BITS
    return min(MOST_MULTIPLIER_BITS, width + 10)


def dyadic(ratio: Fraction, bits: int) -> tuple[int, int]:
    """Return `(m, s)`, `m` of `bits` bits, with `m * 2**-s` nearest to a positive ratio."""
    exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > ratio
    shift = bits - 1 - exponent
    multiplier = round(ratio * Fraction(2) ** shift)
    return (multiplier >> 1, shift - 1) if multiplier == 1 << bits else (multiplier, shift)


def whole(number: Format) -> Fixed:
    """Return integers that hold the steps of a format."""
    if isinstance(number, ScaledInteger):
        off = not number.centred
        return Fixed(number.width + off, 0, number.signed or off)
    assert isinstance(number, Fixed)
    return Fixed(number.width, 0, number.signed)


def in_steps(number: Format) -> Format:
    """Return the format whose values are the steps of a format."""
    return replace(number, frac_width=0) if isinstance(number, Fixed) else number.unscaled()


def operand_problems(name: str, spec: TensorSpec) -> list[str]:
    """Return why hardware has no scale for each channel of a stream; empty when there is one."""
    if isinstance(spec.format, ScaledInteger) and isinstance(spec.format.scale, tuple):
        return [f"{name} is {spec.format}; only a weight may have a scale for each channel"]
    return []


def problems(call: Call, axis: int) -> list[str]:
    """Return what stands between a sum of products, results along `axis`, and hardware."""
    found = []
    for name, spec in {**call.operands, **call.results}.items():
        if not isinstance(spec.format, ScaledInteger | Fixed):
            found.append(f"{name} is {spec.format}; beside {SCALED} it must be that, or fixed")
        elif name not in ("weight", "bias"):
            found += operand_problems(name, spec)
    weight = call.operands["weight"]
    legal = call.operator.result_axis
    if isinstance(weight.format, ScaledInteger) and isinstance(weight.format.scale, tuple):
        given, count = weight.format.channel_axis or 0, len(weight.format.scale)
        if given % len(weight.shape) != legal or count != call.result.shape[axis]:
            found.append(
                f"weight has {count} scales along dimension {given}; it must have "
                f"{call.result.shape[axis]} along dimension {legal}, or one"
            )
    if found:
        return found
    if any(not 0 <= shift < 1 << SHIFT_BITS for _, shift in _multipliers(call)):
        found.append("its scales differ too much; give data_out a scale nearer to the products'")
    return found


def accumulators_fit(width: int) -> list[str]:
    """Return why sums of `width` bits are refused; empty when they fit."""
    if width <= MAX_WIDTH_BITS:
        return []
    return [f"sums take {width} bits; integers with a scale have {MAX_WIDTH_BITS} at most"]


def on_integers(call: Call, width: int = MAX_WIDTH_BITS) -> Call:
    """Return the call on integers alone, whose result are the sums, of `width` bits."""
    operands = {
        name: spec.with_format(whole(spec.quantized)) for name, spec in call.operands.items()
    }
    weight = call.operands["weight"].quantized
    constants = {"weight": weight.significands(call.constant_codes("weight"))[0].double()}
    if "bias" in call.operands:
        units = torch.tensor([float(unit) for unit in _units(call)], dtype=torch.float64)
        spec = call.operands["bias"]
        constants["bias"] = torch.round(spec.quantized.decode(call.constant_codes("bias")) / units)
        operands["bias"] = spec.with_format(Fixed(MAX_WIDTH_BITS, 0))
    # Wider sums are refused; their call only has to be made.
    number = Fixed(min(width, MAX_WIDTH_BITS), 0)
    results = {"data_out_0": call.result.with_format(number)}
    return replace(call, operands=operands, results=results, constants=constants)


def _units(call: Call) -> list[Fraction]:
    """Return the value of one unit of a sum, for each result or for all."""
    (data,) = scales(call.operands["data_in_0"].quantized)
    return [data * weight for weight in scales(call.operands["weight"].quantized)]


def _multipliers(call: Call) -> list[tuple[int, int]]:
    result = call.result.quantized
    (unit,) = scales(result)
    return [dyadic(item / unit, multiplier_bits(result)) for item in _units(call)]


def reference(call: Call, sums: Reference, axis: int) -> Reference:
    """Return codes -> codes.

    Args:
        call: the call.
        sums: the reference of `on_integers(call)`.
        axis: dimension of the results.
    """
    data, steps = call.operands["data_in_0"].quantized, in_steps(call.result.quantized)
    given = _multipliers(call)

    def compute(codes: Tensor) -> Tensor:
        found = sums(data.significands(codes)[0])
        shape = [1] * found.ndim
        shape[axis] = len(given)
        factors, shifts = (torch.tensor(part).reshape(shape) for part in zip(*given, strict=True))
        return steps.from_scaled(found * factors, (-shifts).expand(found.shape))

    return compute


def multiplier_stream(call: Call, axis: int) -> dict[str, TensorSpec]:
    """Return the stream of multipliers, one for each result along `axis`."""
    results = call.result.shape[axis]
    number = Fixed(multiplier_bits(call.result.quantized) + SHIFT_BITS, 0, signed=False)
    lanes = call.result.parallelism[1]
    return {"multiplier": TensorSpec((results,), format=number, parallelism=(1, lanes))}


def hardware(call: Call, module: str, sums: Hardware, width: int, axis: int) -> Hardware:
    """Return an instance: that of the sums, of `width` bits, with a requantiser behind it."""
    bits = multiplier_bits(call.result.quantized)
    spec = multiplier_stream(call, axis)["multiplier"]
    words = [shift << bits | factor for factor, shift in _multipliers(call)]
    codes = torch.tensor(words).expand(spec.shape)
    parameters = {"SUM_WIDTH": width, "MULTIPLIER_WIDTH": bits}
    return replace(
        sums,
        module=module,
        parameters={**sums.parameters, **parameters},
        sources=[*sums.sources, Source("multiplier", spec.to_beats(codes))],
    )


def schedule(offered: Cycles) -> Cycles:
    """Return when results are offered, given when sums are."""
    return offered + REQUANTIZE_CYCLES


def cast_multiplier(given: Format, result: Format) -> Mapping[str, int]:
    """Return the multiplier of a cast from or to a real scale, as parameters; none for others."""
    ratio = given.real_scale / result.real_scale
    if ratio == 1:
        return {}
    bits = multiplier_bits(result)
    factor, shift = dyadic(ratio, bits)
    return {"MULTIPLIER_WIDTH": bits, "MULTIPLIER": factor, "MULTIPLIER_SHIFT": shift}


def cast_reference(given: Format, result: Format) -> Reference:
    """Return codes -> codes of a cast, with the multiplier of a real scale."""
    known = cast_multiplier(given, result)
    factor, shift = known.get("MULTIPLIER", 1), known.get("MULTIPLIER_SHIFT", 0)
    unit = result.unscaled()

    def compute(codes: Tensor) -> Tensor:
        integers, exponents = given.significands(codes)
        return unit.from_scaled(integers * factor, exponents - shift)

    return compute
