"""What operators on scalar formats share: values as integers in a unit of the format."""

from __future__ import annotations

import math

from mase_hw.errors import UnsupportedError
from mase_hw.formats import SCALARS, FloatFormat, Format, family_of
from mase_hw.formats.ternary import Ternary
from mase_hw.geometry.blocks import block_problems, is_block
from mase_hw.geometry.tensor import TensorSpec

MAX_BITS = 62


def is_scalar(spec: TensorSpec) -> bool:
    """True if the hardware of scalars handles a tensor's format."""
    return spec.format is not None and family_of(type(spec.format)) in SCALARS


def integer_fraction(number: Format) -> int:
    """Return the fraction bits in which every value is an integer.

    Raises:
        UnsupportedError: when there are none.
    """
    fraction = number.integer_fraction
    if fraction is None:
        raise UnsupportedError(f"{number} has no common unit of its values")
    return fraction


def unit_problems(name: str, number: Format) -> list[str]:
    """Return why values have no unit; empty when they have one."""
    if number.integer_fraction is not None:
        return []
    problem = f"{name} is {number}; hardware needs a scale that is a power of two"
    scale = getattr(number, "scale", None)
    if isinstance(scale, float) and scale > 0:
        problem += f": give {name}_scale = {2.0 ** round(math.log2(scale))}"
    return [problem]


def scalar_problems(name: str, number: Format, *, result: bool) -> list[str]:
    """Return why hardware cannot handle an operand or a result; empty when it can."""
    if problems := unit_problems(name, number):
        return problems
    if not result:
        low, high = number.encoding.limits
        if max(abs(low), high).bit_length() > MAX_BITS:
            return [f"{name} is {number}; its values span more than {MAX_BITS} bits"]
    if isinstance(number, FloatFormat) and result:
        layout = number.layout
        if not layout.saturate and layout.specials != "none":
            return [f"{name} is {number}; results must saturate"]
    if isinstance(number, Ternary) and result:
        scale = number.scale or 1.0
        if number.threshold not in (None, scale / 2):
            return [
                f"{name} is {number}; results need a threshold of half the scale: give "
                f"{name}_threshold = {scale / 2}"
            ]
    return []


def result_problems(spec: TensorSpec) -> list[str]:
    """Return why hardware cannot round to a result's format; empty when it can."""
    if is_block(spec):
        return block_problems("data_out_0", spec)
    return scalar_problems("data_out_0", spec.quantized, result=True)
