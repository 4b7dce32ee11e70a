"""Elementary functions in two precisions, so that an operator writes its equation once.

`FAST` works on float64 tensors, `PRECISE` on one mpmath real of `PRECISE_BITS` bits. Arguments
of `PRECISE` are bounded where a function has come so close to its limit that only the side on
which the limit lies can matter to a rounding: the result stays on that side. Results of `PRECISE`
that are rational are exact, so that a tie is seen as one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import mpmath  # type: ignore[import-untyped]
import torch

PRECISE_BITS = 1100
_EXPONENT_LOW, _EXPONENT_HIGH = -300, 2000
_POWER_BITS = 2000
_SHORT_BITS = 100
_TANH_BOUND = 150
_ERFC_BOUND = 16
# mpmath has no types.
Mpf = Any
# An argument or a result: a float64 tensor of `FAST`, a number of `PRECISE`.
Real = torch.Tensor | Mpf


class RealMath(ABC):
    """The functions an operator's equation may use."""

    @abstractmethod
    def where(self, condition: Real, if_true: Real, if_false: Real) -> Real:
        """Return `if_true` where the condition holds."""

    @abstractmethod
    def clip(self, x: Real, low: float, high: float) -> Real:
        """Return `min(max(x, low), high)`."""

    @abstractmethod
    def exp(self, x: Real) -> Real:
        """Return the exponential of a real number."""

    @abstractmethod
    def power(self, base: float, x: Real) -> Real:
        """Return `base ** x` of a positive base."""

    @abstractmethod
    def expm1(self, x: Real) -> Real:
        """Return `exp(x) - 1`."""

    @abstractmethod
    def log(self, x: Real) -> Real:
        """Return the natural logarithm."""

    @abstractmethod
    def log2(self, x: Real) -> Real:
        """Return the logarithm to base 2."""

    @abstractmethod
    def log10(self, x: Real) -> Real:
        """Return the logarithm to base 10."""

    @abstractmethod
    def log1p(self, x: Real) -> Real:
        """Return `log(1 + x)`."""

    @abstractmethod
    def sin(self, x: Real) -> Real:
        """Return the sine of an angle in radians."""

    @abstractmethod
    def cos(self, x: Real) -> Real:
        """Return the cosine of an angle in radians."""

    @abstractmethod
    def asin(self, x: Real) -> Real:
        """Return the inverse sine."""

    @abstractmethod
    def atan(self, x: Real) -> Real:
        """Return the inverse tangent."""

    @abstractmethod
    def tanh(self, x: Real) -> Real:
        """Return the hyperbolic tangent."""

    @abstractmethod
    def erf(self, x: Real) -> Real:
        """Return the error function."""

    @abstractmethod
    def erfc(self, x: Real) -> Real:
        """Return the complementary error function."""

    @abstractmethod
    def sqrt(self, x: Real) -> Real:
        """Return the square root, of a constant too."""

    @property
    @abstractmethod
    def pi(self) -> Real:
        """Half of the circumference of the unit circle."""

    def sigmoid(self, x: Real) -> Real:
        """Return `1 / (1 + exp(-x))`."""
        return 1 / (1 + self.exp(-x))

    def softplus(self, x: Real) -> Real:
        """Return `log(1 + exp(x))`."""
        return self.clip(x, 0.0, float("inf")) + self.log1p(self.exp(-abs(x)))


class _Fast(RealMath):
    """Real functions on float64 tensors."""

    pi = torch.pi

    def where(self, condition: Real, if_true: Real, if_false: Real) -> Real:
        return torch.where(condition, if_true, if_false)

    def clip(self, x: Real, low: float, high: float) -> Real:
        if isinstance(x, torch.Tensor) and not (x.requires_grad and torch.is_grad_enabled()):
            return x.clamp(low, high)
        # At a bound the slope is one: rounded values lie on bounds, and would never leave them.
        # That of torch.clamp depends on torch's version.
        x = x if low == -math.inf else torch.where(x < low, low, x)
        return x if high == math.inf else torch.where(x > high, high, x)

    def exp(self, x: Real) -> Real:
        return torch.exp(x)

    def power(self, base: float, x: Real) -> Real:
        return torch.pow(base, x)

    def expm1(self, x: Real) -> Real:
        return torch.expm1(x)

    def log(self, x: Real) -> Real:
        return torch.log(x)

    def log2(self, x: Real) -> Real:
        return torch.log2(x)

    def log10(self, x: Real) -> Real:
        return torch.log10(x)

    def log1p(self, x: Real) -> Real:
        return torch.log1p(x)

    def sin(self, x: Real) -> Real:
        return torch.sin(x)

    def cos(self, x: Real) -> Real:
        return torch.cos(x)

    def asin(self, x: Real) -> Real:
        return torch.asin(x)

    def atan(self, x: Real) -> Real:
        return torch.atan(x)

    def tanh(self, x: Real) -> Real:
        return torch.tanh(x)

    def erf(self, x: Real) -> Real:
        return torch.special.erf(x)

    def erfc(self, x: Real) -> Real:
        return torch.special.erfc(x)

    def sqrt(self, x: Real) -> Real:
        return torch.sqrt(x) if isinstance(x, torch.Tensor) else math.sqrt(x)


class Precise(RealMath):
    """One mpmath real, in a context of its own.

    Args:
        bits: of its significand.
    """

    def __init__(self, bits: int = PRECISE_BITS) -> None:
        self.context = mpmath.mp.clone()
        self.context.prec = bits

    @property
    def pi(self) -> Real:
        return self.context.pi

    def where(self, condition: Real, if_true: Real, if_false: Real) -> Real:
        return if_true if condition else if_false

    def clip(self, x: Real, low: float, high: float) -> Real:
        return min(max(x, self.context.mpf(low)), self.context.mpf(high))

    def exp(self, x: Real) -> Real:
        return self.context.exp(self.clip(x, _EXPONENT_LOW, _EXPONENT_HIGH))

    def power(self, base: float, x: Real) -> Real:
        bound = _POWER_BITS / max(abs(math.log2(base)), 2.0**-_POWER_BITS)
        power = self.context.mpf(base) ** self.clip(x, -bound, bound)
        mantissa, exponent = self.context.frexp(power)
        short = self.context.ldexp(self.context.nint(mantissa * 2**_SHORT_BITS), -_SHORT_BITS)
        is_short = abs(short - mantissa) < self.context.ldexp(1, -self.context.prec + _SHORT_BITS)
        return self.context.ldexp(short, exponent) if is_short else power

    def expm1(self, x: Real) -> Real:
        return self.exp(x) - 1

    def log(self, x: Real) -> Real:
        return self.context.log(x)

    def log2(self, x: Real) -> Real:
        mantissa, exponent = self.context.frexp(x)
        return self.context.log(2 * mantissa) / self.context.log(2) + (exponent - 1)

    def log10(self, x: Real) -> Real:
        logarithm = self.context.log(x) / self.context.log(10)
        whole = self.context.nint(logarithm)
        return whole if self.context.mpf(10) ** whole == x else logarithm

    def log1p(self, x: Real) -> Real:
        return self.context.log(1 + x)

    def sin(self, x: Real) -> Real:
        return self.context.sin(x)

    def cos(self, x: Real) -> Real:
        return self.context.cos(x)

    def asin(self, x: Real) -> Real:
        return self.context.asin(x)

    def atan(self, x: Real) -> Real:
        return self.context.atan(x)

    def tanh(self, x: Real) -> Real:
        return self.context.tanh(self.clip(x, -_TANH_BOUND, _TANH_BOUND))

    def erf(self, x: Real) -> Real:
        return self.context.erf(self.clip(x, -_ERFC_BOUND, _ERFC_BOUND))

    def erfc(self, x: Real) -> Real:
        return self.context.erfc(self.clip(x, -_ERFC_BOUND, _ERFC_BOUND))

    def sqrt(self, x: Real) -> Real:
        return self.context.sqrt(x)


FAST = _Fast()
PRECISE = Precise()
