"""Hard shrink: zero if `|x| <= lambd`, else `x` (`torch.nn.Hardshrink`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mase_hw.approximation import RealMath
from mase_hw.ops._rewriting import Borrowed
from mase_hw.ops._unary import Attributes, Unary


class Hardshrink(Unary, Borrowed):
    """Hard shrink."""

    name = "hardshrink"
    targets = ("aten.hardshrink.default",)
    keeps_format = True
    also_for = "shrink"

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.where(abs(x) > attributes.get("lambd", 0.5), x, 0 * x)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where the pieces meet."""
        lambd = attributes.get("lambd", 0.5)
        return (-lambd, lambd)
