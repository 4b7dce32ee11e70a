"""Square root: `sqrt(x)` (`torch.sqrt`), of negative numbers zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from mase_hw.approximation import Domain, RealMath
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Attributes, Unary


class Sqrt(Unary):
    """Square root."""

    name = "sqrt"
    targets = ("aten.sqrt.default", "aten.sqrt_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        return math.sqrt(x)

    def domain(self, attributes: Attributes) -> Domain:
        """Return where it is defined."""
        return Domain(low=0.0)

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x**0.5
