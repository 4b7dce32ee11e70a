"""Gaussian error linear unit: `x * Phi(x)`, or its tanh form (`GELU`; arXiv:1606.08415)."""

from __future__ import annotations

from typing import Any

from mase_hw.ops._real_math import RealMath
from mase_hw.ops._unary import Attributes, Unary


class GELU(Unary):
    """Gaussian error linear unit."""

    name = "gelu"
    targets = ("aten.gelu.default", "aten.gelu_.default")

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        """Return the function."""
        if attributes.get("approximate", "none") == "tanh":
            # (1 + tanh(z)) / 2 = sigmoid(2 z), which keeps its precision far left of zero.
            inner = math.sqrt(2.0) / math.sqrt(math.pi) * (x + 0.044715 * x * x * x)
            return x * math.sigmoid(2 * inner)
        return x * math.erfc(-x / math.sqrt(2.0)) / 2
