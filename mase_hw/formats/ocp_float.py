"""The floats of the Open Compute Project by name: FP8 E4M3 and E5M2, FP6 E2M3 and E3M2, FP4 E2M1.

Value sets: E5M2 is IEEE 754 with bias 15, maximum 57344, infinities and NaN. E4M3 has bias 7,
maximum 448, no infinity, and NaN only where all exponent and mantissa bits are ones. E2M3 (bias 1,
maximum 7.5), E3M2 (bias 3, maximum 28) and E2M1 (bias 1, maximum 6) have neither. All have
denormals and both zeros. Rounding is to nearest, ties to even. With `saturate` (the default) what
exceeds the maximum becomes it; without, it becomes infinity in E5M2 and NaN in E4M3. NaN is
refused where it has no code.

Source: OCP 8-bit Floating Point Specification (OFP8) 1.0; OCP Microscaling Formats (MX) 1.0,
section 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw._kinds import Table
from mase_hw.formats._float import FloatElement
from mase_hw.formats._minifloat import FloatPreset


class FP8E4M3(FloatPreset):
    """8 bits, maximum 448."""

    name = "fp8_e4m3"
    aliases = ("float8_e4m3fn",)
    preset = FloatElement(4, 3, 7, "nan")

    @classmethod
    def choices(cls, row: int, channel_axis: int | None = None) -> Sequence[Table]:
        return [{}]


class FP8E5M2(FloatPreset):
    """8 bits, maximum 57344."""

    name = "fp8_e5m2"
    aliases = ("float8_e5m2",)
    preset = FloatElement(5, 2, 15, "ieee")

    @classmethod
    def choices(cls, row: int, channel_axis: int | None = None) -> Sequence[Table]:
        return [{}]


class FP6E2M3(FloatPreset):
    """6 bits, maximum 7.5."""

    name = "fp6_e2m3"
    preset = FloatElement(2, 3, 1)


class FP6E3M2(FloatPreset):
    """6 bits, maximum 28."""

    name = "fp6_e3m2"
    preset = FloatElement(3, 2, 3)


class FP4E2M1(FloatPreset):
    """4 bits, maximum 6."""

    name = "fp4_e2m1"
    preset = FloatElement(2, 1, 1)
