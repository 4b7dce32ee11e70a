"""Errors of softmax, layer norm and gelu against float64, beside those of I-BERT's polynomials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tests.bench import ibert
from tests.bench.base import Row

if TYPE_CHECKING:
    from torch import Tensor

    from mase_hw.formats.fixed import Fixed

ROWS, SIZES = 500, (5, 64, 197)
# Widths of operands and results, with the bar in steps of the result.
WIDTHS = {8: 1, 16: 2}

Function = tuple[
    str,
    int,
    Callable[["Fixed", "Fixed", "Tensor"], "Tensor"],
    Callable[["Tensor"], "Tensor"],
    Callable[["Tensor", int], "Tensor"],
]


def errors() -> Iterator[Row]:
    """Compare with float64 on rows of all kinds, whose codes and results are of one width.

    I-BERT's results are rounded to the same format; its operands are the same codes.
    """
    from mase_hw.formats.fixed import Fixed

    for width, bar in WIDTHS.items():
        for name, integers, ours, exactly, theirs in _functions():
            operand, result = Fixed(width, width - 4), Fixed(width, width - integers)
            worst, polynomial = 0.0, 0.0
            for size in SIZES:
                codes = rows_of_codes(operand, size)
                exact = _within(exactly(operand.decode(codes)), result)
                found = result.decode(ours(operand, result, codes))
                other = result.decode(result.encode(theirs(codes, operand.frac_width)))
                worst = max(worst, _steps(found - exact, result))
                polynomial = max(polynomial, _steps(other - exact, result))
            yield Row(
                f"{name}, {width} bit in and out, worst error against float64 (I-BERT's)",
                f"{worst:.2f} steps ({polynomial:.2f})",
                f"<= {bar}",
                worst <= bar,
            )


def _functions() -> Iterator[Function]:
    """Yield name, whole bits of results, the integers of the hardware, float64 and I-BERT's."""
    import torch
    from torch.nn import functional

    from mase_hw.approximation.row_norm import RowNorm
    from mase_hw.approximation.softmax import Softmax
    from mase_hw.ops.activations.gelu import GELU

    def softmax(operand: Fixed, result: Fixed, codes: Tensor) -> Tensor:
        return Softmax(operand, result, codes.shape[-1]).evaluate(codes)

    def norm(operand: Fixed, result: Fixed, codes: Tensor) -> Tensor:
        return RowNorm(operand, result, codes.shape[-1], 1e-5).evaluate(codes, None, None)

    def gelu(operand: Fixed, result: Fixed, codes: Tensor) -> Tensor:
        function = GELU()
        return function.evaluator(function.call(operand, result)).evaluate(codes)

    yield "softmax", 2, softmax, lambda x: torch.softmax(x, -1), ibert.softmax
    yield (
        *("layer_norm", 4, norm),
        lambda x: functional.layer_norm(x, x.shape[-1:], eps=1e-5),
        ibert.layer_norm,
    )
    yield "gelu", 4, gelu, functional.gelu, ibert.gelu


def rows_of_codes(operand: Fixed, size: int) -> Tensor:
    """Return rows of a size: random ones of all magnitudes, and of equal elements."""
    import torch

    generator = torch.Generator().manual_seed(size)
    whole = operand.random_codes((ROWS, size), generator)
    equal = operand.random_codes((ROWS, 1), generator).expand(-1, size)
    return torch.cat([whole, whole >> 2, whole >> 4, equal])


def _within(values: Tensor, result: Fixed) -> Tensor:
    step = 2.0**-result.frac_width
    return values.clamp(result.minimum_code * step, result.maximum_code * step)


def _steps(difference: Tensor, result: Fixed) -> float:
    return float(difference.abs().max()) * 2.0**result.frac_width
