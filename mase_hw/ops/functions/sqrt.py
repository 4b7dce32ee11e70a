"""Square root: `sqrt(x)` (`torch.sqrt`), of negative numbers zero."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Unary


class Sqrt(Unary):
    """Square root: `sqrt(x)`, of negative numbers zero."""

    name = "sqrt"
    targets = ("aten.sqrt.default", "aten.sqrt_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.sqrt(x)

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined."""
        return Domain(low=0.0)

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x**0.5
