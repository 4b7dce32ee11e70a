"""Hard shrink: zero if `|x| <= lambd`, else `x` (`torch.nn.Hardshrink`)."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._rewriting import Borrowed
from mase_hw.ops._unary import Unary


class Hardshrink(Unary, Borrowed):
    """Hard shrink: zero if `|x| <= lambd`, else `x`."""

    name = "hardshrink"
    targets = ("aten.hardshrink.default",)
    keeps_format = True
    also_for = "shrink"

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.where(abs(x) > attributes.get("lambd", 0.5), x, 0 * x)

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where the pieces meet."""
        lambd = attributes.get("lambd", 0.5)
        return (-lambd, lambd)
