"""Self-normalizing exponential linear unit: `elu` with fixed factors (`torch.nn.SELU`)."""

from __future__ import annotations

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._unary import Unary

# Klambauer et al. 2017, arXiv:1706.02515, as torch has them.
ALPHA = 1.6732632423543772848170429916717
SCALE = 1.0507009873554804934193349852946


class SELU(Unary):
    """Self-normalizing exponential linear unit."""

    name = "selu"
    targets = ("aten.selu.default", "aten.selu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return SCALE * math.where(x > 0, x, ALPHA * math.expm1(x))
