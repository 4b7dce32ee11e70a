"""Negation: `-x` (`torch.neg`)."""

from __future__ import annotations

from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._unary import Attributes, Unary


class Neg(Unary):
    """Negation."""

    name = "neg"
    targets = ("aten.neg.default", "aten.neg_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return -x
