"""Real functions in decimal arithmetic of 60 digits, that cells are compared with."""

import decimal
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

DIGITS = 60
Exact = Callable[[Fraction], Fraction]


def decimals(function: Callable[[Decimal], Decimal]) -> Exact:
    """Return a function of rational numbers that is evaluated to 60 digits."""

    @cache
    def exact(value: Fraction) -> Fraction:
        with decimal.localcontext() as context:
            context.prec = DIGITS
            return Fraction(function(Decimal(value.numerator) / Decimal(value.denominator)))

    return exact


def _tanh(x: Decimal) -> Decimal:
    return ((2 * x).exp() - 1) / ((2 * x).exp() + 1)


exponential = decimals(lambda x: x.exp())
square_root = decimals(lambda x: x.sqrt())

# Each as the library has it, and exactly.
REALS: dict[str, tuple[Any, Exact]] = {
    "sigmoid": (lambda x, m: m.sigmoid(x), decimals(lambda x: 1 / (1 + (-x).exp()))),
    "exp": (lambda x, m: m.exp(x), exponential),
    "tanh": (lambda x, m: m.tanh(x), decimals(_tanh)),
    "square": (lambda x, m: x * x, lambda value: value * value),
}
