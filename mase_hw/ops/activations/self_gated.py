"""Activations that multiply a number by a function of itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Unary


class SiLU(Unary):
    """Sigmoid linear unit: `x * sigmoid(x)` (`torch.nn.SiLU`; arXiv:1702.03118)."""

    name = "silu"
    targets = ("aten.silu.default", "aten.silu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x * math.sigmoid(x)

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x * torch.sigmoid(x)


class Mish(Unary):
    """Mish: `x * tanh(softplus(x))` (`torch.nn.Mish`; arXiv:1908.08681)."""

    name = "mish"
    targets = ("aten.mish.default", "aten.mish_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x * math.tanh(math.softplus(x))

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x * torch.tanh(F.softplus(x))


class Hardswish(Unary):
    """Hard swish: `x * min(max(x + 3, 0), 6) / 6` (`torch.nn.Hardswish`; Howard et al. 2019)."""

    name = "hardswish"
    targets = ("aten.hardswish.default", "aten.hardswish_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x * math.clip(x + 3, 0.0, 6.0) / 6

    def knots(self, attributes: Attributes) -> Sequence[float]:
        return (-3.0, 3.0)
