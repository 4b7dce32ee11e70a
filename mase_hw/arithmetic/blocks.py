"""Exact arithmetic on blocks of elements with a shared scale."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw.arithmetic.scaled import Scaled
from mase_hw.formats import BlockFormat, FloatElement


def decode(number: BlockFormat, codes: Tensor) -> Scaled:
    """Return the elements of blocks."""
    return Scaled(*number.significands(codes))


def significand_bits(number: BlockFormat) -> int:
    """Return the bits of an element's significand, sign included."""
    element = number.element
    return element.mantissa_width + 2 if isinstance(element, FloatElement) else element.width


def add(total: Scaled, term: Scaled) -> Scaled:
    """Return sums of two numbers; the one of smaller exponent is rounded down to the other's."""
    high = torch.maximum(total.exponents, term.exponents)
    first = total.integers >> (high - total.exponents).clamp(max=63)
    second = term.integers >> (high - term.exponents).clamp(max=63)
    return Scaled(first + second, high)
