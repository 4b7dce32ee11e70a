"""Activations of one equation."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._formula import Formula, OneScale, Shrink
from mase_hw.ops._interfaces import Spelling

# Klambauer et al. 2017, arXiv:1706.02515, as torch has them.
ALPHA = 1.6732632423543772848170429916717
SCALE = 1.0507009873554804934193349852946


def _elu(
    x: Real, math: RealMath, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Real:
    return math.where(x > 0, x, alpha * math.expm1(x * input_scale)) * scale


def _softplus(x: Real, math: RealMath, beta: float = 1.0, threshold: float = 20.0) -> Real:
    return math.where(x * beta > threshold, x, math.softplus(x * beta) / beta)


def _silu_spellings(x: Tensor) -> Iterable[Spelling]:
    yield x * torch.sigmoid(x)


def _mish_spellings(x: Tensor) -> Iterable[Spelling]:
    yield x * torch.tanh(F.softplus(x))


BOUNDED = (
    Formula("relu", "relu relu_", bounds=lambda: (0.0, inf), keeps_format=True),
    Formula("relu6", "relu6 relu6_", bounds=lambda: (0.0, 6.0), keeps_format=True),
    Formula(
        "hardtanh",
        "hardtanh hardtanh_",
        bounds=lambda min_val=-1.0, max_val=1.0: (float(min_val), float(max_val)),
        keeps_format=True,
    ),
    Formula(
        "clamp",
        "clamp clamp_ clip clip_ clamp_min clamp_min_ clamp_max clamp_max_",
        bounds=lambda min=None, max=None: (
            -inf if min is None else float(min),
            inf if max is None else float(max),
        ),
        keeps_format=True,
        required={"min": -0.5, "max": 1.25},
    ),
)
LINEAR_UNITS = (
    Formula(
        "leaky_relu",
        "leaky_relu leaky_relu_",
        lambda x, math, negative_slope=0.01: math.where(x > 0, x, x * negative_slope),
    ),
    Formula(
        "threshold",
        "threshold threshold_",
        lambda x, math, threshold, value: math.where(x > threshold, x, value + 0 * x),
        knots=lambda threshold, value: (threshold,),
        required={"threshold": 0.1, "value": 0.7},
    ),
    Formula("elu", "elu elu_", _elu),
    Formula(
        "selu",
        "selu selu_",
        lambda x, math: SCALE * math.where(x > 0, x, ALPHA * math.expm1(x)),
    ),
    Formula(
        "celu",
        "celu celu_",
        lambda x, math, alpha=1.0: math.where(x > 0, x, alpha * math.expm1(x / alpha)),
    ),
    Formula(
        "softplus",
        "softplus",
        _softplus,
        knots=lambda beta=1.0, threshold=20.0: (threshold / beta,),
    ),
)
SIGMOIDS = (
    OneScale("sigmoid", "sigmoid special_expit sigmoid_", lambda x, math: math.sigmoid(x)),
    OneScale("log_sigmoid", "log_sigmoid", lambda x, math: -math.softplus(-x)),
    OneScale(
        "hardsigmoid",
        "hardsigmoid hardsigmoid_",
        lambda x, math: math.clip(x + 3, 0.0, 6.0) / 6,
        knots=(-3.0, 3.0),
    ),
    Formula("tanh", "tanh tanh_", lambda x, math: math.tanh(x)),
)
SELF_GATED = (
    # arXiv:1702.03118
    Formula("silu", "silu silu_", lambda x, math: x * math.sigmoid(x), patterns=_silu_spellings),
    # arXiv:1908.08681
    Formula(
        "mish",
        "mish mish_",
        lambda x, math: x * math.tanh(math.softplus(x)),
        patterns=_mish_spellings,
    ),
    # Howard et al. 2019
    Formula(
        "hardswish",
        "hardswish hardswish_",
        lambda x, math: x * math.clip(x + 3, 0.0, 6.0) / 6,
        knots=(-3.0, 3.0),
    ),
)
SHRINKS = (
    Formula(
        "softshrink",
        "softshrink",
        lambda x, math, lambd=0.5: x - math.clip(x, -lambd, lambd),
        knots=lambda lambd=0.5: (-lambd, lambd),
    ),
    Shrink(
        "hardshrink",
        "hardshrink",
        lambda x, math, lambd=0.5: math.where(abs(x) > lambd, x, 0 * x),
        knots=lambda lambd=0.5: (-lambd, lambd),
        keeps_format=True,
        jumps=True,
    ),
    Formula("softsign", "mase.softsign.default", lambda x, math: x / (1 + abs(x))),
    Formula("tanhshrink", "mase.tanhshrink.default", lambda x, math: x - math.tanh(x)),
)
