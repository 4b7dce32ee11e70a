"""Normalisation of a row in fixed point: exact sums, one reciprocal square root.

For codes `x` of `f` fraction bits in a row of `n`, in integers:

    d[i] = n x[i] - sum x,                  n x[i] where the row is not centred: exact,
    w = 2**a (n sum x^2 - (sum x)^2) + E,   without the square of the sum where it is not: exact,
    r 2**(-P - k) = 1 / sqrt(w),            see `reciprocal_root`,
    t[i] = d[i] r 2**(a / 2 - k - P),       rounded down to R fraction bits,
    y[i] = cast(t[i] weight[i] + bias[i]),  exact, rounded once.

`E = max(1, round(2**(a + 2 f) n^2 eps))` is the constant below the root, whose fraction is
`a` bits, an even number. `R` gives five bits and those of the largest weight below a step of the
result, and `P` gives two below that of the largest result, `n` elements of which one differs, or
what the result's format holds: what comes before the last rounding is off by less than half a step.

The mean and the variance are those of Ba, Kiros and Hinton, "Layer Normalization"
(arXiv:1607.06450); without the mean, Zhang and Sennrich, "Root Mean Square Layer Normalization"
(arXiv:1910.07467). Both of sums in one pass, exact as they are integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log2

from torch import Tensor

from mase_hw.approximation.reciprocal_root import ReciprocalRoot
from mase_hw.arithmetic.fixed_point import MAX_BITS
from mase_hw.formats.fixed import Fixed

MOST_ROOT_FRACTION = 24


@dataclass(frozen=True)
class RowNorm:
    """The arithmetic of rows of a size.

    Attributes:
        operand: format of the elements.
        result: of the results.
        size: elements of a row.
        epsilon: what is added to the mean square.
        centred: whether the mean is subtracted.
        weight: of the weights, None for none.
        bias: of the biases, None for none.
    """

    operand: Fixed
    result: Fixed
    size: int
    epsilon: float
    centred: bool = True
    weight: Fixed | None = None
    bias: Fixed | None = None

    @property
    def problems(self) -> list[str]:
        """What stands between the formats and hardware."""
        if self.square_width > MAX_BITS:
            return [
                f"the squares of a row of {self.size} elements of {self.operand.width} bits take "
                f"{self.square_width} bits, at most {MAX_BITS} are supported: narrow it"
            ]
        widest = max(self.difference_width + self.root.fraction + self.lift, self.sum_width)
        if widest > MAX_BITS or self.root.fraction > MOST_ROOT_FRACTION:
            return [
                f"the result takes intermediate numbers of {widest} bits, at most {MAX_BITS} are "
                "supported: use a result of fewer bits"
            ]
        return []

    @property
    def element_width(self) -> int:
        """Bits of an element in two's complement."""
        return self.operand.width + (not self.operand.signed)

    @property
    def sum_width(self) -> int:
        """Bits of the result before it is rounded."""
        wide = self.term_width + (self.weight.width + 1 if self.weight else 0)
        if self.bias is None:
            return wide
        return max(wide + self.sum_fraction - self.product_fraction, self._bias_width) + 1

    @property
    def _bias_width(self) -> int:
        assert self.bias is not None
        return self.bias.width + 1 + self.sum_fraction - self.bias.frac_width

    @property
    def product_fraction(self) -> int:
        """Fraction bits of a normalised element times its weight."""
        return self.term_fraction + (self.weight.frac_width if self.weight else 0)

    @property
    def sum_fraction(self) -> int:
        """Fraction bits of the result before it is rounded."""
        return max(self.product_fraction, self.bias.frac_width if self.bias else -(1 << 30))

    @property
    def total_width(self) -> int:
        """Bits of the sum of a row."""
        return self.element_width + (self.size - 1).bit_length()

    @property
    def difference_width(self) -> int:
        """Bits of the difference `d` from the mean."""
        return self.total_width + 1

    @cached_property
    def square_width(self) -> int:
        """Bits of `w` without a sign."""
        largest = self.size * self.size * (1 << (2 * self.element_width - 2))
        return ((largest << self.below_bits) + self.constant).bit_length()

    @cached_property
    def below_bits(self) -> int:
        """Fraction bits of `w`, `a`."""
        # Half a place of the constant counts most in the smallest square, of a step in one element.
        exact = self._exact_constant
        if exact.denominator == 1:
            return 0
        least = float(exact) + self.size - (1 if self.centred else 0)
        needed = log2(self.size**0.5 / max(least, 0.5)) + self.result.frac_width
        needed += self._weight_octaves + 1
        return min(16, max(0, 2 * ceil(needed / 2)))

    @property
    def _exact_constant(self) -> Fraction:
        scale = Fraction(2) ** (2 * self.operand.frac_width)
        return Fraction(self.epsilon) * scale * self.size * self.size

    @cached_property
    def constant(self) -> int:
        """The constant below the root, `E`."""
        return max(1, round(self._exact_constant * (1 << self.below_bits)))

    @property
    def _weight_octaves(self) -> int:
        """Bits of the largest weight above the point."""
        return self.weight.width - self.weight.frac_width if self.weight else 0

    @property
    def _result_octaves(self) -> int:
        """Bits above the point of what the result may be before a bias is added."""
        largest = (self.size.bit_length() + 1) // 2 + self._weight_octaves
        bound = self.result.width - self.result.frac_width
        if self.result.overflow != "saturate":
            return largest
        if self.bias is not None:
            bound = max(bound, self.bias.width - self.bias.frac_width) + 1
        return min(largest, bound)

    @property
    def term_fraction(self) -> int:
        """Fraction bits of a normalised element, `R`."""
        return max(5, self.result.frac_width + 5 + self._weight_octaves)

    @property
    def term_width(self) -> int:
        """Bits of a normalised element."""
        return self.term_fraction + (self.size.bit_length() + 1) // 2 + 2

    @cached_property
    def root(self) -> ReciprocalRoot:
        """What the differences are multiplied with: `P` fraction bits."""
        return ReciprocalRoot(max(6, self.result.frac_width + 3 + self._result_octaves))

    @property
    def lift(self) -> int:
        """By how much a product is shifted up before it is shifted down by `k`."""
        return max(0, self.term_fraction + self.below_bits // 2 - self.root.fraction)

    @property
    def drop(self) -> int:
        """By how much it is shifted down beside `k`."""
        return max(0, self.root.fraction - self.term_fraction - self.below_bits // 2)

    def evaluate(self, codes: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Return the result codes of int64 codes `[..., size]`, and of weights and biases."""
        differences, squares = codes * self.size, (codes * codes).sum(-1, keepdim=True) * self.size
        if self.centred:
            totals = codes.sum(-1, keepdim=True)
            differences, squares = differences - totals, squares - totals * totals
        roots, places = self.root.evaluate((squares << self.below_bits) + self.constant)
        terms = ((differences * roots) << self.lift) >> (places + self.drop)
        if weight is not None:
            terms = terms * weight
        if bias is not None:
            assert self.bias is not None
            terms = terms << (self.sum_fraction - self.product_fraction)
            terms = terms + (bias << (self.sum_fraction - self.bias.frac_width))
        return self.result.from_fixed(terms, self.sum_fraction)
