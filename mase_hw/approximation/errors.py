"""How far element-wise functions are from the truth: computed from their references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.approximation._real_math import FAST
from mase_hw.approximation.domain import Function
from mase_hw.approximation.rounding import correctly_rounded
from mase_hw.formats.fixed import Fixed

MAX_EXHAUSTIVE_BITS = 16
SAMPLES = 1 << 12


@dataclass(frozen=True)
class FunctionError:
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
    module: str | None = None
    codes: int = 0
    exhaustive: bool = False
    worst_ulps: float = 0.0
    worst_steps: int = 0
    misrounded: float = 0.0


def function_error(
    function: Function, evaluate: Callable[[Tensor], Tensor], operand: Fixed, result: Fixed
) -> FunctionError:
    """Return the errors of an evaluation, over all codes up to 16 bits and a sample beyond.

    Args:
        function: the truth.
        evaluate: takes operand codes to result codes.
        operand: format of the operands.
        result: format of the results.
    """
    codes = sample_codes(operand)
    approximate = evaluate(codes)
    steps = (approximate - correctly_rounded(function, codes, operand, result)).abs()
    real = function(operand.decode(codes), FAST) * 2.0**result.frac_width
    if result.overflow == "wrap":
        # Where the real function leaves the range, only the codes can be compared.
        steps = torch.minimum(steps, (1 << result.width) - steps)
        inside = (real >= result.minimum_code) & (real <= result.maximum_code)
        distance = torch.where(inside, (approximate - real).abs(), steps.double())
    else:
        distance = (approximate - real.clamp(result.minimum_code, result.maximum_code)).abs()
    return FunctionError(
        function.name,
        operand,
        result,
        codes=codes.numel(),
        exhaustive=operand.width <= MAX_EXHAUSTIVE_BITS,
        worst_ulps=float(distance.max()),
        worst_steps=int(steps.max()),
        misrounded=float((steps != 0).double().mean()),
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
