"""Functions of one number that are one equation."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import torch
from torch import Tensor

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._formula import Formula
from mase_hw.ops._interfaces import Spelling


def _asinh(x: Real, math: RealMath) -> Real:
    size = abs(x)
    positive = math.log1p(size + size * size / (1 + math.sqrt(size * size + 1)))
    return math.where(x < 0, -positive, positive)


def _sinc(x: Real, math: RealMath) -> Real:
    angle = math.pi * math.where(x == 0, x + 1, x)
    return math.where(x == 0, x + 1, math.sin(angle) / angle)


def _margin(eps: float | None) -> float:
    return max(0.0, float(eps or 0.0))


def _logit(x: Real, math: RealMath, eps: float | None = None) -> Real:
    inside = math.clip(x, _margin(eps), 1.0 - _margin(eps)) if _margin(eps) else x
    return math.log(inside) - math.log1p(-inside)


def _logit_domain(eps: float | None = None) -> Domain:
    return Domain(low=0.0, high=1.0, poles={} if _margin(eps) else {0.0: -inf, 1.0: inf})


def _logit_knots(eps: float | None = None) -> tuple[float, ...]:
    return (_margin(eps), 1.0 - _margin(eps)) if _margin(eps) else ()


def _rsqrt_spellings(x: Tensor) -> Iterable[Spelling]:
    yield 1 / torch.sqrt(x)
    yield torch.sqrt(x).reciprocal()
    yield x**-0.5


def _reciprocal_spellings(x: Tensor) -> Iterable[Spelling]:
    yield 1 / x
    yield torch.div(1, x)
    yield x**-1


EXP = Formula("exp", "exp exp_", lambda x, math: math.exp(x))
POSITIVE = Domain(low=0.0, poles={0.0: -inf})
LOG = Formula("log", "log log_", lambda x, math: math.log(x), domain=POSITIVE)

EXPONENTIALS = (
    Formula("exp2", "exp2 exp2_ special_exp2", lambda x, math: math.power(2.0, x)),
    Formula("expm1", "expm1 expm1_ special_expm1", lambda x, math: math.expm1(x)),
)
LOGARITHMS = (
    Formula("log2", "log2 log2_", lambda x, math: math.log2(x), domain=POSITIVE),
    Formula("log10", "log10 log10_", lambda x, math: math.log10(x), domain=POSITIVE),
    Formula(
        "log1p",
        "log1p log1p_ special_log1p",
        lambda x, math: math.log1p(x),
        domain=Domain(low=-1.0, poles={-1.0: -inf}),
    ),
    # The logarithm of the odds, of an operand from eps on.
    Formula(
        "logit",
        "logit logit_ special_logit",
        _logit,
        domain=_logit_domain,
        knots=_logit_knots,
    ),
)
POWERS = (
    # A product x * x stays one, exact in every format.
    Formula("square", "square square_", lambda x, math: x * x, patterns=lambda x: [x**2]),
    Formula(
        "sqrt",
        "sqrt sqrt_",
        lambda x, math: math.sqrt(x),
        domain=Domain(low=0.0),
        patterns=lambda x: [x**0.5],
    ),
    Formula(
        "rsqrt",
        "rsqrt rsqrt_",
        lambda x, math: 1 / math.sqrt(x),
        domain=Domain(low=0.0, poles={0.0: inf}),
        patterns=_rsqrt_spellings,
    ),
    Formula(
        "reciprocal",
        "reciprocal reciprocal_",
        lambda x, math: 1 / x,
        domain=Domain(poles={0.0: inf}),
        patterns=_reciprocal_spellings,
    ),
)
TRIGONOMETRIC = (
    Formula("sin", "sin sin_", lambda x, math: math.sin(x), quarters=0),
    Formula("cos", "cos cos_", lambda x, math: math.cos(x), quarters=1),
    Formula("asin", "asin asin_ arcsin", lambda x, math: math.asin(x), domain=Domain(-1.0, 1.0)),
    Formula(
        "acos",
        "acos acos_ arccos",
        lambda x, math: math.pi / 2 - math.asin(x),
        domain=Domain(-1.0, 1.0),
    ),
    Formula("atan", "atan atan_ arctan", lambda x, math: math.atan(x)),
    # sin(pi x) / (pi x), of 0 one.
    Formula("sinc", "sinc sinc_ special_sinc", _sinc),
)
HYPERBOLIC = (
    Formula("sinh", "sinh sinh_", lambda x, math: (math.expm1(x) - math.expm1(-x)) / 2),
    Formula("cosh", "cosh cosh_", lambda x, math: (math.exp(x) + math.exp(-x)) / 2),
    Formula("asinh", "asinh asinh_ arcsinh", _asinh),
    Formula(
        "acosh",
        "acosh acosh_ arccosh",
        lambda x, math: math.log(x + math.sqrt(x * x - 1)),
        domain=Domain(low=1.0),
    ),
    Formula(
        "atanh",
        "atanh atanh_ arctanh",
        lambda x, math: (math.log1p(x) - math.log1p(-x)) / 2,
        domain=Domain(-1.0, 1.0, {-1.0: -inf, 1.0: inf}),
    ),
)
OTHERS = (
    Formula("abs", "abs abs_", lambda x, math: abs(x)),
    Formula("neg", "neg neg_", lambda x, math: -x),
    Formula("erf", "erf erf_ special_erf", lambda x, math: math.erf(x)),
    Formula("erfc", "erfc erfc_ special_erfc", lambda x, math: math.erfc(x)),
)
