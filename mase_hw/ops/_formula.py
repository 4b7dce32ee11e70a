"""Element-wise functions of one operand as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor

from mase_hw.approximation import EVERYWHERE, Domain, Real, RealMath
from mase_hw.ops._base import Attributes, overloads
from mase_hw.ops._interfaces import Borrowed, Judged, Spelling
from mase_hw.ops._unary import Unary


class Formula(Unary):
    """An element-wise function that takes one row of a table.

    What depends on a call's other arguments is a function that takes them by name, with torch's
    defaults.

    Args:
        name: of the operator.
        targets: ATen overloads, `sin` for `aten.sin.default`, or full names.
        equation: the function of `x` and `math`; None for that of `bounds`.
        domain: where it is defined, with its poles, see `Unary.domain`.
        knots: where it is not smooth, see `Unary.knots`.
        bounds: low and high of `min(max(x, low), high)`.
        patterns: spellings in other torch operators, a function of a tensor.
        keeps_format: see `Numeric`.
        jumps: see `Numeric`.
        quarters: see `Unary`.
        required: values for the arguments that have no default, for tables and tests.

    Examples:
        >>> Formula("celu", "celu celu_", lambda x, math, alpha=1.0:
        ...     math.where(x > 0, x, alpha * math.expm1(x / alpha)))
    """

    def __init__(
        self,
        name: str,
        targets: str,
        equation: Callable[..., Real] | None = None,
        *,
        domain: Domain | Callable[..., Domain] = EVERYWHERE,
        knots: Sequence[float] | Callable[..., Sequence[float]] = (),
        bounds: Callable[..., tuple[float, float]] | None = None,
        patterns: Callable[[Tensor], Iterable[Spelling]] | None = None,
        keeps_format: bool = False,
        jumps: bool = False,
        quarters: int | None = None,
        required: Attributes | None = None,
    ) -> None:
        self.name = name
        self.targets = overloads(targets)
        self.keeps_format, self.jumps, self.quarters = keeps_format, jumps, quarters
        self.required_attributes = required or {}
        self._parts = {"domain": domain, "knots": knots, "bounds": bounds}
        self._equation, self._patterns = equation, patterns
        super().__init__()

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        if self._equation is None:
            return math.clip(x, *self._part("bounds", attributes))
        return self._equation(x, math, **attributes)

    def domain(self, attributes: Attributes) -> Domain:
        domain: Domain = self._part("domain", attributes)
        return domain

    def knots(self, attributes: Attributes) -> Sequence[float]:
        knots: Sequence[float] = self._part("knots", attributes)
        return knots

    def bounds(self, attributes: Attributes) -> tuple[float, float] | None:
        bounds: tuple[float, float] | None = self._part("bounds", attributes)
        return bounds

    def _part(self, key: str, attributes: Attributes) -> Any:
        part = self._parts[key]
        return part(**attributes) if callable(part) else part

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        return super().patterns(x) if self._patterns is None else self._patterns(x)


class OneScale(Formula, Judged):
    """A function whose results are in one scale in all channels, as probabilities are."""

    one_scale = True


class Shrink(Formula, Borrowed):
    """A function that passes insert where they make small numbers zero."""

    also_for = "shrink"
