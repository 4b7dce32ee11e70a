"""How far element-wise functions are from the truth: computed from their references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats.fixed import Fixed
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops import operators
from mase_hw.ops._base import Call
from mase_hw.ops._real_math import FAST
from mase_hw.ops._unary import Unary
from mase_hw.ops._unary_rounding import correctly_rounded

MAX_EXHAUSTIVE_BITS = 16
SAMPLES = 1 << 12


@dataclass(frozen=True)
class UnaryError:
    """The errors of one function between two formats.

    Attributes:
        module: the module that computes it, or None where the formats are refused.
        codes: operand codes compared.
        exhaustive: true when those are all codes.
        worst_ulps: largest distance to the real function, clipped to the result's range.
        worst_steps: largest distance to the correctly rounded code.
        misrounded: fraction of codes that are not correctly rounded.
    """

    operator: str
    operand: Fixed
    result: Fixed
    module: str | None
    codes: int = 0
    exhaustive: bool = False
    worst_ulps: float = 0.0
    worst_steps: int = 0
    misrounded: float = 0.0


def unary_operators() -> list[Unary]:
    """Return every element-wise function."""
    return [operator for operator in operators().values() if isinstance(operator, Unary)]


def unary_call(
    operator: Unary, operand: Fixed, result: Fixed, attributes: Mapping[str, Any] | None = None
) -> Call:
    """Return a call of `operator` on one element."""
    chosen = operator.required_attributes if attributes is None else attributes
    spec = TensorSpec((1, 1))
    return Call(
        operator.name,
        operator,
        {"data_in_0": spec.with_format(operand)},
        {"data_out_0": spec.with_format(result)},
        attributes=chosen,
    )


def error_table(
    formats: Iterable[tuple[Fixed, Fixed]], chosen: Iterable[Unary] | None = None
) -> list[UnaryError]:
    """Return the errors of every function between every pair (operand, result) of formats."""
    functions = unary_operators() if chosen is None else list(chosen)
    return [
        unary_error(unary_call(operator, operand, result))
        for operand, result in formats
        for operator in functions
    ]


def unary_error(call: Call) -> UnaryError:
    """Return the errors of one call, over all codes up to 16 bits and a sample beyond."""
    operator, operand, result = call.operator, call.operands["data_in_0"].format, call.result.format
    assert isinstance(operator, Unary)
    assert isinstance(operand, Fixed) and isinstance(result, Fixed)
    try:
        main = operator.hardware(call).main
    except UnsupportedError:
        return UnaryError(operator.name, operand, result, None)
    codes = sample_codes(operand)
    found = operator.reference(call)(codes)
    function = operator.function(call.attributes)
    steps = (found - correctly_rounded(function, codes, operand, result)).abs()
    real = function(operand.decode(codes), FAST) * 2.0**result.frac_width
    if result.overflow == "wrap":
        # Where the real function leaves the range, only the codes can be compared.
        steps = torch.minimum(steps, (1 << result.width) - steps)
        inside = (real >= result.minimum_code) & (real <= result.maximum_code)
        distance = torch.where(inside, (found - real).abs(), steps.double())
    else:
        distance = (found - real.clamp(result.minimum_code, result.maximum_code)).abs()
    return UnaryError(
        operator.name,
        operand,
        result,
        main.module if main else None,
        codes.numel(),
        operand.width <= MAX_EXHAUSTIVE_BITS,
        float(distance.max()),
        int(steps.max()),
        float((steps != 0).double().mean()),
    )


def sample_codes(operand: Fixed) -> Tensor:
    """Return all codes, or the ends, powers of two, and codes spread evenly and around zero."""
    low, high = operand.minimum_code, operand.maximum_code
    if operand.width <= MAX_EXHAUSTIVE_BITS:
        return torch.arange(low, high + 1)
    even = torch.linspace(low, high, SAMPLES, dtype=torch.float64).long()
    powers = (2.0 ** (torch.arange(operand.width * 64).double() / 64)).long()
    codes = torch.cat([even, powers, -powers, -powers - 1, torch.tensor([low, 0, high])])
    inside: Tensor = torch.unique(codes[(codes >= low) & (codes <= high)])
    return inside
