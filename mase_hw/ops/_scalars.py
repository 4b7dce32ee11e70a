"""What operators on scalar formats share: values as integers in a unit of the format."""

from __future__ import annotations

import torch

from mase_hw.errors import UnsupportedError
from mase_hw.formats import Format
from mase_hw.formats._codes import CodeFormat
from mase_hw.formats._minifloat import FloatFormat
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.ternary import Ternary
from mase_hw.geometry.tensor import TensorSpec

# Formats whose values are integers in one unit, and which hardware decodes.
SCALARS = (
    "fixed",
    "minifloat_denorm",
    "minifloat_ieee",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp6_e2m3",
    "fp6_e3m2",
    "fp4_e2m1",
    "log",
    "ternary",
    "binary",
    "binary_scaling",
    "binary_residual",
)
# Integers with a real scale.
SCALED = "scaled_integer"
MAX_BITS = 62


def is_scalar(spec: TensorSpec) -> bool:
    """Return whether the hardware of scalars handles a tensor's format."""
    return spec.format is not None and spec.format.name in SCALARS


def integer_fraction(number: Format) -> int:
    """Return the fraction bits in which every value is an integer.

    Raises:
        UnsupportedError: when there are none.
    """
    fraction = number.integer_fraction
    if fraction is None:
        raise UnsupportedError(f"{number} has no common unit of its values")
    return fraction


def limits(number: Format) -> tuple[int, int]:
    """Return the smallest and the largest value in units of the format."""
    if isinstance(number, FloatFormat):
        largest = int(number.layout.maximum * 2.0**-number.layout.lsb_exponent)
        return -largest, largest
    if isinstance(number, Fixed):
        return number.minimum_code, number.maximum_code
    assert isinstance(number, CodeFormat)
    low, high = number.to_integers(torch.tensor(number.code_range)).tolist()
    return low, high


def unit_problems(name: str, number: Format) -> list[str]:
    """Return why values have no unit; empty when they have one."""
    if number.integer_fraction is None:
        return [f"{name} is {number}; hardware needs a scale that is a power of two"]
    return []


def scalar_problems(name: str, number: Format, *, result: bool) -> list[str]:
    """Return why hardware cannot handle an operand or a result; empty when it can."""
    if found := unit_problems(name, number):
        return found
    if not result:
        low, high = limits(number)
        if max(abs(low), high).bit_length() > MAX_BITS:
            return [f"{name} is {number}; its values span more than {MAX_BITS} bits"]
    if isinstance(number, FloatFormat) and result:
        layout = number.layout
        if not layout.saturate and layout.specials != "none":
            return [f"{name} is {number}; results must saturate"]
    if isinstance(number, Ternary) and result:
        scale = number.scale or 1.0
        if number.threshold not in (None, scale / 2):
            return [f"{name} is {number}; results need a threshold of half the scale"]
    return []
