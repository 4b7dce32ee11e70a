"""Softsign: `x / (1 + |x|)` (`torch.nn.Softsign`)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mase_hw.ops._library import define
from mase_hw.ops._real_math import RealMath
from mase_hw.ops._unary import Attributes, Unary


def softsign(x: Tensor) -> Tensor:
    """Return the function as capture sees it."""
    return x / (1 + x.abs())


define("softsign", softsign)


class Softsign(Unary):
    """Softsign."""

    name = "softsign"
    targets = ("mase.softsign.default",)
    pattern = staticmethod(softsign)

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        """Return the function."""
        return x / (1 + abs(x))
