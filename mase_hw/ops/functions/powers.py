"""Powers with constant exponents, roots and the reciprocal."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.approximation import Domain, Real, RealMath
from mase_hw.ops._base import Apply, Attributes, Call, Example, example_values
from mase_hw.ops._rewriting import Spelling
from mase_hw.ops._unary import Unary

# Powers beyond are 0, 1 and infinity.
_MOST = 1 << 31


class Pow(Unary):
    """Power with a constant exponent: `x**exponent` (`torch.pow`).

    Whole exponents and halves are products, roots and reciprocals; any other one is `exp(exponent *
    log(x))`. Of negative numbers only whole powers are defined; others are as of zero.
    """

    name = "pow"
    targets = ("aten.pow.Tensor_Scalar", "aten.pow_.Scalar")
    required_attributes: ClassVar[Attributes] = {"exponent": 3}

    def problems(self, call: Call) -> list[str]:
        """Also refuse exponents that are no finite numbers."""
        exponent = call.attributes["exponent"]
        if not abs(exponent) < _MOST:
            return [f"its exponent is {exponent}; allowed are numbers from -{_MOST} to {_MOST}"]
        return super().problems(call)

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        exponent = attributes["exponent"]
        size = abs(exponent)
        if size == int(size):
            power = x ** (int(size) if size < _MOST else size)
        elif 2 * size == int(2 * size):
            power = math.sqrt(x) ** int(2 * size)
        else:
            # The logarithm of zero is none, its power is zero.
            logarithm = math.log(math.where(x == 0, x + 1, x))
            power = math.where(x == 0, x, math.exp(size * logarithm))
        return 1 / power if exponent < 0 else power

    def domain(self, attributes: Attributes) -> Domain:
        exponent = attributes["exponent"]
        low = -inf if exponent == int(exponent) else 0.0
        return Domain(low, poles={0.0: inf} if exponent < 0 else {})

    def examples(self) -> list[Example]:
        """A whole power, a negative one, halves, and another one."""
        x = example_values(3, 5)
        return [
            (Apply(lambda x: x**3), (x,)),
            (Apply(lambda x: torch.pow(x, -2)), (x,)),
            (Apply(lambda x: x.abs() ** 1.5), (x,)),
            (Apply(lambda x: (x * x + 1) ** -2.5), (x,)),
            (Apply(lambda x: x.abs() ** 0.3), (x,)),
        ]


class Square(Unary):
    """Square: `x**2` (`torch.square`); a product `x * x` stays one, exact in every format."""

    name = "square"
    targets = ("aten.square.default", "aten.square_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return x * x

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x**2


class Sqrt(Unary):
    """Square root: `sqrt(x)` (`torch.sqrt`), of negative numbers zero."""

    name = "sqrt"
    targets = ("aten.sqrt.default", "aten.sqrt_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return math.sqrt(x)

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=0.0)

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield x**0.5


class Rsqrt(Unary):
    """Reciprocal square root: `1 / sqrt(x)` (`torch.rsqrt`), of 0 and below the largest number."""

    name = "rsqrt"
    targets = ("aten.rsqrt.default", "aten.rsqrt_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return 1 / math.sqrt(x)

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(low=0.0, poles={0.0: inf})

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield 1 / torch.sqrt(x)
        yield torch.sqrt(x).reciprocal()
        yield x**-0.5


class Reciprocal(Unary):
    """Reciprocal: `1 / x` (`torch.reciprocal`), of 0, whatever its sign, the largest number."""

    name = "reciprocal"
    targets = ("aten.reciprocal.default", "aten.reciprocal_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        return 1 / x

    def domain(self, attributes: Attributes) -> Domain:
        return Domain(poles={0.0: inf})

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        yield 1 / x
        yield torch.div(1, x)
        yield x**-1
