"""The base of element-wise functions of one operand: an operator is its equation and its knots.

Tables and polynomials are those of `mase_hw.approximation`; `elements_of` chooses the arithmetic of
a call. The integer reference reads the same memories as the module, so both agree on every bit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor

from mase_hw.approximation import EVERYWHERE, FAST, Domain, Real, RealMath
from mase_hw.approximation.domain import Function
from mase_hw.approximation.errors import FunctionError, function_error
from mase_hw.cells import Netlist
from mase_hw.errors import UnsupportedError
from mase_hw.formats import Format
from mase_hw.formats.fixed import Fixed
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import Attributes, Call, Example, Operator, Reference, example, torch_target
from mase_hw.ops._elements import Elements, Evaluator
from mase_hw.ops._elementwise import FUNCTIONS, elements_of
from mase_hw.ops._interfaces import Elementwise, Numeric, Ordered, Recognized, Spelling
from mase_hw.ops._library import NAMESPACE, define
from mase_hw.ops._one_cell import one_cell


class Unary(Operator, Numeric, Elementwise, Recognized, Ordered):
    """An element-wise function of one operand.

    Subclasses write `equation`; where the function is not defined everywhere, `domain`; and where
    it is not smooth other than at zero and at the ends of its domain, `knots`.

    Attributes:
        required_attributes: values for the arguments that have no default, for tables and tests.
        quarters: quarter turns by which it leads the sine, where it is one.

    Examples:
        >>> class Cube(Unary):
        ...     name, targets = "cube", ("my.cube.default",)
        ...     def equation(self, x, math, attributes):
        ...         return x * x * x
    """

    families = FUNCTIONS
    approximates = True
    required_attributes: Mapping[str, Any] = {}
    quarters: int | None = None

    def __init__(self) -> None:
        namespace, name, _ = self.targets[0].split(".")
        if namespace == NAMESPACE and not hasattr(torch.ops.mase, name):
            define(f"{name}(Tensor self) -> Tensor", self._composition)

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        if self.targets[0].startswith(f"{NAMESPACE}."):
            yield self._composition(x)

    def _composition(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.equation(x, FAST, {}))

    def examples(self) -> list[Example]:
        target, required = torch_target(self.targets[0]), dict(self.required_attributes)
        return [example(lambda x: target(x, **required), (3, 11))]

    @abstractmethod
    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        """Return the real function of `x`, a float64 tensor or one real of high precision.

        Args:
            x: the operand's values, inside the domain.
            math: functions that suit `x`; `+ - * /` and comparisons work as usual.
            attributes: the call's other arguments; those left to their default are missing.
        """

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        """Evaluate the function, which torch's own kernel may round differently at a tie."""
        attributes = {key: arguments[key] for key in arguments if key not in self.operand_names}
        return cast(Tensor, self.function(attributes)(operands["data_in_0"], FAST))

    def domain(self, attributes: Attributes) -> Domain:
        """Domain of the function, with its values elsewhere."""
        return EVERYWHERE

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Points, zero aside, at which the function or its slope is not continuous: two at most.

        The ends of the domain and the poles are known and count.
        """
        return ()

    def bounds(self, attributes: Attributes) -> tuple[float, float] | None:
        """Return low and high of a function `min(max(x, low), high)`; their knots are known."""
        return None

    def function(self, attributes: Attributes) -> Function:
        """Return the function on the whole line: the equation, and what its domain adds to it."""
        domain, bounds = self.domain(attributes), self.bounds(attributes)

        def evaluate(x: Real, math: RealMath) -> Real:
            return domain.extend(lambda inside: self.equation(inside, math, attributes), x, math)

        finite = [bound for bound in bounds or () if abs(bound) != float("inf")]
        knots = (*self.knots(attributes), *finite, *domain.knots)
        return Function(self.name, evaluate, knots, domain.knots, bounds, self.quarters)

    def call(self, operand: Format, result: Format, attributes: Attributes | None = None) -> Call:
        """Return a call on one element between two formats."""
        chosen = self.required_attributes if attributes is None else attributes
        spec = TensorSpec((1, 1))
        operands = {"data_in_0": spec.with_format(operand)}
        results = {"data_out_0": spec.with_format(result)}
        return Call(self.name, self, operands, results, attributes=chosen)

    def evaluator(self, call: Call) -> Evaluator:
        """Return the integer arithmetic of a call, cached by formats and attributes."""
        return self._evaluator(call, elements_of(call))

    def _evaluator(self, call: Call, elements: Elements[Any]) -> Evaluator:
        operand, result = call.operands["data_in_0"].quantized, call.result.quantized
        attributes = tuple(sorted(call.attributes.items()))
        fitted = _fit(self, type(elements), operand, result, attributes)
        if isinstance(fitted, UnsupportedError):
            raise fitted
        return fitted

    def error(self, call: Call) -> FunctionError:
        """Return how far a call in fixed point is from the function."""
        operand, result = call.operands["data_in_0"].quantized, call.result.quantized
        assert isinstance(operand, Fixed) and isinstance(result, Fixed)
        try:
            main = self.hardware(call).main
        except UnsupportedError:
            return FunctionError(self.name, operand, result, None)
        error = function_error(
            self.function(call.attributes), self.reference(call), operand, result
        )
        return replace(error, module=main.module if main else None)

    def reference(self, call: Call) -> Reference:
        return self.evaluator(call).evaluate

    def hardware(self, call: Call) -> Netlist:
        elements = elements_of(call)
        evaluator = self._evaluator(call, elements)
        return one_cell(call, elements.unary_cell(evaluator), elements.operand_cell(evaluator))

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call) or elements_of(call).unary_problems()
        if not problems:
            try:
                self.evaluator(call)
            except UnsupportedError as error:
                problems.append(str(error))
        return problems

    def block_axis(self, name: str) -> int | None:
        return None

    def orders(self, call: Call) -> dict[str, Order | None]:
        return elements_of(call).orders(super().orders(call))


@lru_cache(maxsize=256)
def _fit(
    operator: Unary,
    kind: type[Elements[Any]],
    operand: Format,
    result: Format,
    items: tuple[tuple[str, Any], ...],
) -> Evaluator | UnsupportedError:
    """Return the fit, or why there is none, which takes as long to find out."""
    try:
        fitted: Evaluator = kind.fit(operator.function(dict(items)), operand, result)
    except UnsupportedError as error:
        return error
    return fitted
