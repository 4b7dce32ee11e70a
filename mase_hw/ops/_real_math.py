"""Elementary functions in two precisions, so that an operator writes its equation once.

`FAST` works on float64 tensors, `PRECISE` on one mpmath real of `PRECISE_BITS` bits. Arguments
of `PRECISE` are bounded where a function has come so close to its limit that only the side on
which the limit lies can matter to a rounding: the result stays on that side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import mpmath  # type: ignore[import-untyped]
import torch

PRECISE_BITS = 1100
_EXPONENT_LOW, _EXPONENT_HIGH = -300, 2000
_TANH_BOUND = 150
_ERFC_BOUND = 16


class RealMath(ABC):
    """The functions an operator's equation may use; `Any` is a tensor or an mpmath real."""

    @abstractmethod
    def where(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        """Return `if_true` where the condition holds."""

    @abstractmethod
    def clip(self, x: Any, low: float, high: float) -> Any:
        """Return `min(max(x, low), high)`."""

    @abstractmethod
    def exp(self, x: Any) -> Any:
        """Return the exponential."""

    @abstractmethod
    def expm1(self, x: Any) -> Any:
        """Return `exp(x) - 1`."""

    @abstractmethod
    def log1p(self, x: Any) -> Any:
        """Return `log(1 + x)`."""

    @abstractmethod
    def tanh(self, x: Any) -> Any:
        """Return the hyperbolic tangent."""

    @abstractmethod
    def erfc(self, x: Any) -> Any:
        """Return the complementary error function."""

    @abstractmethod
    def sqrt(self, x: float) -> Any:
        """Return the square root of a constant."""

    @property
    @abstractmethod
    def pi(self) -> Any:
        """Return the constant."""

    def sigmoid(self, x: Any) -> Any:
        """Return `1 / (1 + exp(-x))`."""
        return 1 / (1 + self.exp(-x))

    def softplus(self, x: Any) -> Any:
        """Return `log(1 + exp(x))`."""
        return self.clip(x, 0.0, float("inf")) + self.log1p(self.exp(-abs(x)))


class _Fast(RealMath):
    """Float64 tensors."""

    pi = torch.pi

    def where(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        return torch.where(condition, if_true, if_false)

    def clip(self, x: Any, low: float, high: float) -> Any:
        return torch.clamp(x, low, high)

    def exp(self, x: Any) -> Any:
        return torch.exp(x)

    def expm1(self, x: Any) -> Any:
        return torch.expm1(x)

    def log1p(self, x: Any) -> Any:
        return torch.log1p(x)

    def tanh(self, x: Any) -> Any:
        return torch.tanh(x)

    def erfc(self, x: Any) -> Any:
        return torch.special.erfc(x)

    def sqrt(self, x: float) -> Any:
        return x**0.5


class _Precise(RealMath):
    """One mpmath real, in a context of its own."""

    def __init__(self) -> None:
        self.context = mpmath.mp.clone()
        self.context.prec = PRECISE_BITS

    @property
    def pi(self) -> Any:
        return self.context.pi

    def where(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        return if_true if condition else if_false

    def clip(self, x: Any, low: float, high: float) -> Any:
        return min(max(x, self.context.mpf(low)), self.context.mpf(high))

    def exp(self, x: Any) -> Any:
        return self.context.exp(self.clip(x, _EXPONENT_LOW, _EXPONENT_HIGH))

    def expm1(self, x: Any) -> Any:
        return self.exp(x) - 1

    def log1p(self, x: Any) -> Any:
        return self.context.log(1 + x)

    def tanh(self, x: Any) -> Any:
        return self.context.tanh(self.clip(x, -_TANH_BOUND, _TANH_BOUND))

    def erfc(self, x: Any) -> Any:
        return self.context.erfc(self.clip(x, -_ERFC_BOUND, _ERFC_BOUND))

    def sqrt(self, x: float) -> Any:
        return self.context.sqrt(x)


FAST = _Fast()
PRECISE = _Precise()
