"""Linear layers on scalar formats: minifloat, log, ternary, binary, and fixed point beside them.

Values are integers in the unit of their format, so that products and sums are exact; the result
is rounded once, to its format. The accumulator is as wide as the worst case of the actual weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mase_hw.formats.fixed import Fixed
from mase_hw.ops._accumulate import Bounds, exact_dtype, width_for
from mase_hw.ops._base import Call, Hardware, Reference, Source
from mase_hw.ops._scalars import MAX_BITS, integer_fraction, is_scalar, limits, scalar_problems


def serves(call: Call) -> bool:
    """Return whether everything is scalar, and something is not fixed point."""
    specs = [*call.operands.values(), *call.results.values()]
    return all(map(is_scalar, specs)) and not all(isinstance(s.format, Fixed) for s in specs)


def problems(call: Call) -> list[str]:
    """Return what stands between the call and hardware."""
    found = []
    for name, spec in {**call.operands, **call.results}.items():
        found += scalar_problems(name, spec.quantized, result=name == "data_out_0")
    if not found and _widest(call) > MAX_BITS:
        found.append(f"sums may exceed {MAX_BITS} bits; use formats of a smaller range")
    return found


def reference(call: Call) -> Reference:
    """Return codes -> codes, a matrix product in the narrowest dtype that is exact."""
    weight, bias, fraction, bounds = _aligned(call)
    dtype = exact_dtype(bounds)
    columns = weight.t().to(dtype).contiguous()
    data, result = call.operands["data_in_0"].quantized, call.result.quantized

    def compute(codes: Tensor) -> Tensor:
        rows = data.to_integers(codes.reshape(-1, codes.shape[-1])).to(dtype)
        sums = rows @ columns if bias is None else torch.addmm(bias.to(dtype), rows, columns)
        shape = (*codes.shape[:-1], columns.shape[1])
        return result.from_fixed(sums.to(torch.int64), fraction).reshape(shape)

    return compute


def _fractions(call: Call) -> tuple[int, int]:
    """Return the fraction bits of products, and of sums."""
    data, weight = call.operands["data_in_0"].quantized, call.operands["weight"].quantized
    product = integer_fraction(data) + integer_fraction(weight)
    if "bias" not in call.operands:
        return product, product
    return product, max(product, integer_fraction(call.operands["bias"].quantized))


def _integers(call: Call, name: str) -> Tensor:
    return call.operands[name].quantized.to_integers(call.constant_codes(name))


def _aligned(call: Call) -> tuple[Tensor, Tensor | None, int, Bounds]:
    """Return weight and bias in the unit of sums, its fraction bits, and the bounds of sums."""
    product, fraction = _fractions(call)
    weight = _integers(call, "weight") << (fraction - product)
    bias = None
    if "bias" in call.operands:
        own = integer_fraction(call.operands["bias"].quantized)
        bias = _integers(call, "bias") << (fraction - own)
    low, high = limits(call.operands["data_in_0"].quantized)
    ends = torch.stack([weight * low, weight * high])
    return weight, bias, fraction, Bounds.of_sums(ends.amin(0), ends.amax(0), bias)


def _widest(call: Call) -> float:
    """Return the bits of the widest sum of the actual weights, without overflow on the way."""
    product, fraction = _fractions(call)
    low, high = limits(call.operands["data_in_0"].quantized)
    weight = _integers(call, "weight").double().abs().sum(dim=1)
    largest = weight * float(max(abs(low), high)) * 2.0 ** (fraction - product)
    if "bias" in call.operands:
        own = integer_fraction(call.operands["bias"].quantized)
        largest = largest + _integers(call, "bias").double().abs() * 2.0 ** (fraction - own)
    return float(torch.log2(largest.max().clamp(min=1.0))) + 1.0


def hardware(call: Call, sources: Sequence[Source]) -> Hardware:
    """Return an instance whose weights, and bias if any, come from ROMs."""
    product, fraction = _fractions(call)
    has_bias = "bias" in call.operands
    own = integer_fraction(call.operands["bias"].quantized) if has_bias else fraction
    return Hardware(
        "mase_linear_minifloat",
        {
            "HAS_BIAS": int(has_bias),
            "SUM_WIDTH": max(2, width_for(_aligned(call)[3])),
            "SUM_FRACTION": fraction,
            "DOT_SHIFT": fraction - product,
            "BIAS_SHIFT": fraction - own,
        },
        sources,
        absent=() if has_bias else ("bias",),
    )
