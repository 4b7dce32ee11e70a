"""Arithmetic on two operands that is written with other operators."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values
from mase_hw.ops._composite import composition


@composition("aten.atan2.default", examples=lambda: [example(torch.atan2, (3, 6), (3, 6))])
def atan2(call: Call, y: Tensor, x: Tensor) -> Tensor:
    """Angle of a vector of two elements (torch.atan2).

    The arctangent of the smaller over the larger magnitude, and reflections into each octant: a
    quotient of 0 to 1 keeps its resolution where operands are decades apart. Beside a negative `x`,
    a `y` that is rounded to zero has the angle of a positive one: codes have no negative zero.
    """
    rise, run = aten.abs.default(y), aten.abs.default(x)
    shorter, longer = aten.minimum.default(rise, run), aten.maximum.default(rise, run)
    angle = aten.atan.default(aten.div.Tensor(shorter, longer))
    for behind, turn in (
        (aten.gt.Tensor(rise, run), pi / 2),
        (aten.lt.Scalar(x, 0.0), pi),
        (aten.lt.Scalar(y, 0.0), 0.0),
    ):
        reflected = aten.rsub.Scalar(angle, turn) if turn else aten.neg.default(angle)
        angle = aten.where.self(behind, reflected, angle)
    return angle


@composition(
    "aten.clamp.Tensor",
    "aten.clamp_min.Tensor",
    "aten.clamp_max.Tensor",
    examples=lambda: [
        example(
            Apply(torch.clamp, -example_values(5).abs(), example_values(5, seed=1).abs()), (2, 5)
        ),
        example(lambda x, y: torch.clamp(x, max=y), (2, 5), (2, 5)),
    ],
)
def clamp_tensor(call: Call, data: Tensor, *bounds: Tensor) -> Tensor:
    """`min(max(x, low), high)`, element by element (torch.clamp); each bound may be missing."""
    for name, bound in zip(list(call.operands)[1:], bounds, strict=True):
        data = (aten.maximum if name == "min" else aten.minimum).default(data, bound)
    return data


@composition(
    "aten.copysign.Tensor",
    "aten.copysign.Scalar",
    examples=lambda: [example(torch.copysign, (2, 5), (2, 5))],
)
def copysign(call: Call, data: Tensor, sign: Tensor) -> Tensor:
    """Magnitude of one tensor with the sign of another (torch.copysign); zeros have no sign."""
    size = aten.abs.default(data)
    return aten.where.self(aten.lt.Scalar(sign, 0), aten.neg.default(size), size)


@composition("aten.hypot.default", examples=lambda: [example(torch.hypot, (2, 5), (2, 5))])
def hypot(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Length of a vector of two elements (torch.hypot)."""
    return aten.sqrt.default(aten.add.Tensor(aten.square.default(x), aten.square.default(y)))


@composition(
    "aten.lerp.Scalar",
    "aten.lerp.Tensor",
    examples=lambda: [
        example(lambda x, y: torch.lerp(x, y, 0.25), (2, 5), (2, 5)),
        example(torch.lerp, (2, 5), (2, 5), (2, 5)),
    ],
)
def lerp(call: Call, start: Tensor, end: Tensor, *weights: Tensor) -> Tensor:
    """Point between two tensors, `start + weight * (end - start)` (torch.lerp)."""
    weight = weights[0] if weights else call.attributes["weight"]
    return aten.add.Tensor(start, aten.mul.Tensor(aten.sub.Tensor(end, start), weight))


@composition("aten.logaddexp.default", examples=lambda: [example(torch.logaddexp, (2, 5), (2, 5))])
def logaddexp(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """`max(x, y) + log(1 + exp(-|x - y|))` (torch.logaddexp)."""
    difference = aten.abs.default(aten.sub.Tensor(x, y))
    rest = aten.softplus.default(aten.neg.default(difference))
    return aten.add.Tensor(aten.maximum.default(x, y), rest)


@composition(
    "aten.fmod.Scalar",
    "aten.fmod.Tensor",
    examples=lambda: _divided(torch.fmod),
)
def fmod(call: Call, data: Tensor, *divisors: Tensor) -> Tensor:
    """What is left of a division (torch.fmod): `y = x - d trunc(x / d)`, of the sign of `x`."""
    return _rest(call, data, divisors, "trunc")


@composition(
    "aten.remainder.Scalar",
    "aten.remainder.Tensor",
    examples=lambda: _divided(torch.remainder),
)
def remainder(call: Call, data: Tensor, *divisors: Tensor) -> Tensor:
    """What is left of a division (torch.remainder): `y = x - d floor(x / d)`, of the sign of `d`.

    The quotient is rounded before it is rounded down, so that near multiples of `d` a whole `d` may
    be missed.
    """
    return _rest(call, data, divisors, "floor")


def _rest(call: Call, data: Tensor, divisors: tuple[Tensor, ...], mode: str) -> Tensor:
    divisor = divisors[0] if divisors else call.attributes["other"]
    quotient = aten.div.Tensor_mode(data, divisor, rounding_mode=mode)
    return aten.sub.Tensor(data, aten.mul.Tensor(quotient, divisor))


def _divided(function: Callable[..., Tensor]) -> list[Example]:
    return [
        example(lambda x: function(x, 0.75), (3, 7)),
        example(lambda x, y: function(x, y.abs() + 0.5), (3, 7), (3, 7)),
    ]


@composition(
    "aten.xlogy.Tensor",
    examples=lambda: [
        example(lambda x, y: torch.xlogy(x, y), (2, 5), example_values(2, 5, seed=1).abs() + 0.1)
    ],
)
def xlogy(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Product with a logarithm, which is rounded before (torch.xlogy)."""
    return aten.mul.Tensor(x, aten.log.default(y))
