"""Mish: `x * tanh(softplus(x))` (`torch.nn.Mish`; arXiv:1908.08681)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.approximation import RealMath
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Attributes, Unary


class Mish(Unary):
    """Mish."""

    name = "mish"
    targets = ("aten.mish.default", "aten.mish_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return x * math.tanh(math.softplus(x))

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x * torch.tanh(F.softplus(x))
