"""Softmax, layer norm and gelu as I-BERT computes them, for comparison of errors.

From Kim et al., "I-BERT: Integer-only BERT Quantization" (arXiv:2101.01321), algorithms 1 to 4:
polynomials of the second degree in whole numbers, and a root in whole numbers by Newton's
iteration. A number is a code, int64, times a scale. Operands there are sums of 32 bits, of a scale
much finer than that of 8 bits: codes come with so many more bits here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# exp on (-ln 2, 0], and erf from 0 on, as `a (x + b)**2 + c`.
EXPONENTIAL = 0.3585, 1.353, 0.344
ERROR_FUNCTION = -0.2888, -1.769, 1.0
# Fraction bits of operands, and of results before they are rounded.
OPERAND_BITS = 14
RESULT_BITS = 24
MOST_HALVINGS = 40
EPSILON = 1e-5


def softmax(codes: Tensor, fraction: int) -> Tensor:
    """Return the softmax of rows of codes of `fraction` bits, in float64 (algorithm 3)."""
    import torch

    fine, scale = _fine(codes, fraction)
    rest = fine.amax(-1, keepdim=True) - fine
    period = math.floor(math.log(2) / scale)
    halvings = rest.div(period, rounding_mode="floor").clamp(max=MOST_HALVINGS)
    within = (halvings * period - rest).clamp(min=-period)
    found = _polynomial(within, scale, *EXPONENTIAL)[0] >> halvings
    total = found.sum(-1, keepdim=True)
    quotient = (found << RESULT_BITS).div(total, rounding_mode="floor")
    return torch.ldexp(quotient.double(), torch.tensor(-RESULT_BITS))


def gelu(codes: Tensor, fraction: int) -> Tensor:
    """Return the gelu of codes of `fraction` bits, in float64 (algorithm 2)."""
    import torch

    fine, scale = _fine(codes, fraction)
    inner = scale / math.sqrt(2)
    clipped = fine.abs().clamp(max=math.floor(-ERROR_FUNCTION[1] / inner))
    error, step = _polynomial(clipped, inner, *ERROR_FUNCTION)
    whole = torch.sign(fine) * error + math.floor(1 / step)
    return (fine * whole).double() * scale * step / 2


def layer_norm(codes: Tensor, fraction: int) -> Tensor:
    """Return rows less their mean, over their deviation, in float64 (algorithm 4).

    `EPSILON` is added to the variance, as torch does.
    """
    import torch

    fine, scale = _fine(codes, fraction)
    size = codes.shape[-1]
    rest = fine - (fine.sum(-1, keepdim=True).double() / size).round().long()
    variance = (rest**2).sum(-1, keepdim=True).div(size, rounding_mode="floor")
    variance += round(EPSILON / scale**2)
    quotient = (rest << RESULT_BITS).div(_root(variance).clamp(min=1), rounding_mode="floor")
    return torch.ldexp(quotient.double(), torch.tensor(-RESULT_BITS))


def _fine(codes: Tensor, fraction: int) -> tuple[Tensor, float]:
    more = max(0, OPERAND_BITS - fraction)
    return codes << more, 2.0 ** -(fraction + more)


def _polynomial(codes: Tensor, scale: float, a: float, b: float, c: float) -> tuple[Tensor, float]:
    """Return codes and scale of `a (x + b)**2 + c` (algorithm 1)."""
    moved, raised = math.floor(b / scale), math.floor(c / (a * scale**2))
    return (codes + moved) ** 2 + raised, a * scale**2


def _root(numbers: Tensor) -> Tensor:
    """Return the whole parts of square roots."""
    import torch

    found = torch.full_like(numbers, 1 << (int(numbers.max()).bit_length() + 1) // 2)
    while True:
        better = (found + numbers.div(found.clamp(min=1), rounding_mode="floor")) >> 1
        if bool((better >= found).all()):
            return found
        found = torch.minimum(better, found)
