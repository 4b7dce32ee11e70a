"""Reciprocal: `1 / x` (`torch.reciprocal`), of 0, whatever its sign, the largest number."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import torch
from torch import Tensor

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Unary


class Reciprocal(Unary):
    """Reciprocal: `1 / x`, of 0, whatever its sign, the largest number."""

    name = "reciprocal"
    targets = ("aten.reciprocal.default", "aten.reciprocal_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return 1 / x

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined, and its pole."""
        return Domain(poles={0.0: inf})

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield 1 / x
        yield torch.div(1, x)
        yield x**-1
