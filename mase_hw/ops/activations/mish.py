"""Mish: `x * tanh(softplus(x))` (`torch.nn.Mish`; arXiv:1908.08681)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Unary


class Mish(Unary):
    """Mish: `x * tanh(softplus(x))`."""

    name = "mish"
    targets = ("aten.mish.default", "aten.mish_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x * math.tanh(math.softplus(x))

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x * torch.tanh(F.softplus(x))
