"""Square: `x**2` (`torch.square`); a product `x * x` stays one, exact in every format."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Unary


class Square(Unary):
    """Square: `x**2`; a product `x * x` stays one, exact in every format."""

    name = "square"
    targets = ("aten.square.default", "aten.square_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x * x

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x**2
