"""Square: `x**2` (`torch.square`); a product `x * x` stays one, exact in every format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from mase_hw.approximation import RealMath
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Attributes, Unary


class Square(Unary):
    """Square."""

    name = "square"
    targets = ("aten.square.default", "aten.square_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return x * x

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x**2
