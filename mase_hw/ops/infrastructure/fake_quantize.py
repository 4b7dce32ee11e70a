"""Rounding that a model itself does, to integers with a scale: a quantiser and its inverse.

`y = (bound(round(x / scale) + zero_point) - zero_point) * scale`, for a tensor or each channel; the
quotient is that of the exact numbers. Files of ONNX, fake-quantised modules and exported quantised
programs all say it in words of their own, which capture makes this one of. As a format of what it
rounds, it is kept exactly, see `mase_hw.passes.formats.keep`; behind what has a format of our own
choice, as a softmax, it is a cast.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from fractions import Fraction

import torch
from torch import Tensor

from mase_hw.arithmetic.exact_formats import ends_in_steps
from mase_hw.arithmetic.exact_requantize import Part, same_steps
from mase_hw.arithmetic.requantize import cast_multiplier, scales
from mase_hw.formats import Format, make_format
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.ops._base import Apply, Attributes, Call, Example, example_values
from mase_hw.ops._interfaces import Numeric
from mase_hw.ops._library import define
from mase_hw.ops.infrastructure.cast import Cast

# Bits of a multiplier beyond those of a layer's, of any, and of a product with one.
FEWEST_BITS, MOST_MULTIPLIER_BITS, MOST_PRODUCT_BITS = 20, 60, 92
# Bits of a scale's mantissa of which numbers of single precision lie half way between steps.
TIE_BITS = 16
ROUNDINGS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "nearest_even": torch.round,
    "nearest_up": lambda values: torch.floor(values + 0.5),
    "floor": torch.floor,
    "toward_zero": torch.trunc,
}


# How a quotient is computed: as well as a double can, or in single precision, as others do.
QUOTIENTS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "double": torch.div,
    "single": lambda values, steps: values.float() / steps.float(),
    "inverse": lambda values, steps: values.float() * (1.0 / steps.float()),
}
_quotient: ContextVar[str] = ContextVar("quotient", default="double")


@contextlib.contextmanager
def dividing(kind: str) -> Iterator[None]:
    """Let roundings compute their quotients in one of the ways of `QUOTIENTS`."""
    token = _quotient.set(kind)
    try:
        yield
    finally:
        _quotient.reset(token)


def fake_quantize(
    values: Tensor,
    scale: Sequence[float],
    zero_point: Sequence[int],
    axis: int,
    low: int,
    high: int,
    rounding: str = "nearest_even",
) -> Tensor:
    """Return the nearest values that have a code from `low` to `high`.

    Args:
        values: real numbers.
        scale: the step of the tensor, or of each channel.
        zero_point: as many codes of zero.
        axis: dimension of the channels.
        low: the least code.
        high: the largest.
        rounding: a mode of fixed point.
    """
    work = values.double()
    shape = [1] * work.dim()
    if len(scale) > 1:
        shape[axis] = -1
    steps = torch.tensor(list(scale), dtype=torch.float64, device=work.device).reshape(shape)
    points = torch.tensor(list(zero_point), dtype=torch.float64, device=work.device).reshape(shape)
    quotients = QUOTIENTS[_quotient.get()](work, steps)
    codes = (ROUNDINGS[rounding](quotients) + points).clamp(low, high)
    return ((codes - points) * steps).to(values.dtype)


def moved_ties(scales: Sequence[float], points: Sequence[int]) -> str:
    """Return why rounding after a zero point is added differs; empty where it does not.

    Ties go to even codes then, not to even steps: with an odd zero point others are chosen. Single
    precision reaches ties at scales of few bits; at others the first one alone.

    Args:
        scales: the step of the tensor, or of each channel.
        points: as many zero points.
    """
    for scale, point in zip(scales, points, strict=True):
        numerator, _ = scale.as_integer_ratio()
        if point % 2 and (numerator // (numerator & -numerator)).bit_length() <= TIE_BITS:
            return (
                f"its zero point is {point}, odd, and added before ties are rounded to "
                f"even ones, and its scale {scale} reaches ties; give an even zero point"
            )
    return ""


def _empty(values: Tensor, *arguments: object, **keywords: object) -> Tensor:
    return torch.empty_like(values)


define(
    "fake_quantize(Tensor self, float[] scale, int[] zero_point, int axis, int low, int high,"
    ' str rounding="nearest_even") -> Tensor',
    fake_quantize,
    opaque=True,
    shapes=_empty,
)


def rounded(
    values: Tensor,
    scale: Sequence[float],
    zero_point: Sequence[int],
    axis: int,
    low: int,
    high: int,
    rounding: str = "nearest_even",
) -> Tensor:
    """`fake_quantize` as one operator that captures keep whole."""
    given = [float(item) for item in scale], [int(item) for item in zero_point]
    result: Tensor = torch.ops.mase.fake_quantize(values, *given, axis, low, high, rounding)
    return result


def round_to(values: Tensor, number: str) -> Tensor:
    """Return the nearest values of a format.

    Args:
        values: real numbers.
        number: the format's name and fields, as JSON.
    """
    return make_format(json.loads(number)).round_values(values)


define("round_to(Tensor self, str number) -> Tensor", round_to, opaque=True, shapes=_empty)


def rounded_to(values: Tensor, number: Format) -> Tensor:
    """`round_to` as one operator that captures keep whole."""
    given = {"name": number.name, **asdict(number)}
    result: Tensor = torch.ops.mase.round_to(values, json.dumps(given))
    return result


class FakeQuantize(Cast, Numeric):
    """Rounding to integers with a scale, or to another format of ours."""

    name = "fake_quantize"
    targets = ("mase.fake_quantize.default", "mase.round_to.default")
    role = "rounding"
    most_bits = MOST_PRODUCT_BITS

    def result_format(self, call: Call) -> Format | None:
        return format_of(call.attributes)

    def problems(self, call: Call) -> list[str]:
        if format_of(call.attributes) is None:
            given = call.attributes
            return [
                f"codes from {given['low']} to {given['high']} around {given['zero_point'][0]}, "
                f"rounded by {given['rounding']}, are no format; allowed are all codes of 2 to 32 "
                "bits, or all but the least, rounded to the nearest"
            ]
        found = super().problems(call)
        if not found and self._bits(call) is None:
            data, result = call.operands["data_in_0"].format, call.result.format
            found.append(
                f"some codes of {data} would become others than the exact ones of {result}"
            )
        return found

    def multiplier_bits(self, call: Call) -> int:
        return self._bits(call) or 0

    @staticmethod
    def _bits(call: Call) -> int | None:
        found: int | None = call.once("bits of the quotient", lambda: _fewest_bits(call))
        return found

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        return operands["data_in_0"]

    def examples(self) -> list[Example]:
        target = torch.ops.mase.fake_quantize.default
        module = Apply(lambda x: target(x, [0.03], [5], 0, -128, 127))
        return [(module, (example_values(3, 11),))]


def _fewest_bits(call: Call) -> int | None:
    """Return the bits of a multiplier that misses no code, 0 as of a layer, None for none."""
    given, result = call.operands["data_in_0"].quantized, call.result.quantized
    if not isinstance(given, ScaledInteger | Fixed) or not isinstance(
        result, ScaledInteger | Fixed
    ):
        return 0
    low, high = ends_in_steps(given)
    exact = Part(scales(given)[0] / scales(result)[0], low, high)
    most = min(MOST_PRODUCT_BITS - 2 - max(-low, high).bit_length(), MOST_MULTIPLIER_BITS)
    tried: list[int] = [0, *range(FEWEST_BITS, most + 1, 2)]
    for bits in tried:
        known = cast_multiplier(given, result, bits)
        if not known:
            return 0
        factor = known["MULTIPLIER"] * Fraction(2) ** -known["MULTIPLIER_SHIFT"]
        unit = exact.ratio * result.real_scale / given.real_scale
        if same_steps(exact, factor * unit, result):
            return bits
    return None


def format_of(given: Attributes, axis: int | None = None) -> Format | None:
    """Return the format of a rounding with these arguments; None where there is none.

    Powers of two with a zero point of 0 are fixed point, anything else integers with a scale.

    Args:
        given: by name, as `fake_quantize` or `round_to` takes them.
        axis: dimension of the channels, where it is another one by now.
    """
    if "number" in given:
        return make_format(json.loads(str(given["number"])))
    low, high, rounding = int(given["low"]), int(given["high"]), str(given["rounding"])
    scales, points = list(given["scale"]), list(given["zero_point"])
    signed = low < 0
    width = max(high.bit_length(), (-low - 1).bit_length() if signed else 0) + signed
    whole = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    symmetric = signed and (low, high) == (whole[0] + 1, whole[1])
    if width < 2 or ((low, high) != whole and not symmetric) or (symmetric and any(points)):
        return None
    if len(scales) == 1 and not any(points) and not symmetric:
        mantissa, exponent = math.frexp(scales[0])
        if mantissa == 0.5 and abs(exponent) < 60:
            return Fixed(width, 1 - exponent, signed, rounding)
    if rounding != "nearest_even":
        return None
    channels = len(scales) > 1
    return ScaledInteger(
        width,
        tuple(scales) if channels else scales[0],
        tuple(points) if channels else points[0],
        signed,
        symmetric,
        (int(given["axis"]) if axis is None else axis) if channels else None,
    )
