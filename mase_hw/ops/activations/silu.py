"""Sigmoid linear unit: `x * sigmoid(x)` (`torch.nn.SiLU`; arXiv:1702.03118)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from mase_hw.approximation import RealMath
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Attributes, Unary


class SiLU(Unary):
    """Sigmoid linear unit."""

    name = "silu"
    targets = ("aten.silu.default", "aten.silu_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return x * math.sigmoid(x)

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x * torch.sigmoid(x)
