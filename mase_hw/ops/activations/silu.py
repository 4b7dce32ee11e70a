"""Sigmoid linear unit: `x * sigmoid(x)` (`torch.nn.SiLU`; arXiv:1702.03118)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Unary


class SiLU(Unary):
    """Sigmoid linear unit: `x * sigmoid(x)`."""

    name = "silu"
    targets = ("aten.silu.default", "aten.silu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x * math.sigmoid(x)

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x * torch.sigmoid(x)
