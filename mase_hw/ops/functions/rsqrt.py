"""Reciprocal square root: `1 / sqrt(x)` (`torch.rsqrt`), of 0 and below the largest number."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import torch
from torch import Tensor

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Unary


class Rsqrt(Unary):
    """Reciprocal square root: `1 / sqrt(x)`, of 0 and below the largest number."""

    name = "rsqrt"
    targets = ("aten.rsqrt.default", "aten.rsqrt_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return 1 / math.sqrt(x)

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined, and its pole."""
        return Domain(low=0.0, poles={0.0: inf})

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield 1 / torch.sqrt(x)
        yield torch.sqrt(x).reciprocal()
        yield x**-0.5
