"""Tanh shrink: `x - tanh(x)` (`torch.nn.Tanhshrink`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mase_hw.ops._library import define
from mase_hw.ops._real_math import RealMath
from mase_hw.ops._unary import Attributes, Unary


def tanhshrink(x: Tensor) -> Tensor:
    """Return the function as capture sees it."""
    return x - torch.tanh(x)


define("tanhshrink", tanhshrink)


class Tanhshrink(Unary):
    """Tanh shrink."""

    name = "tanhshrink"
    targets = ("mase.tanhshrink.default",)
    pattern = staticmethod(tanhshrink)

    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        """Return the function."""
        return x - math.tanh(x)
