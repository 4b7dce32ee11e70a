"""The base of element-wise functions of one operand: an operator is its equation and its knots.

Fixed-point operands of up to 12 bits index a table of correctly rounded results. Wider ones go
through piecewise quadratics whose result is at most one step from the correctly rounded one. For
floats see `_elementwise_minifloat`, for blocks of integers `_elementwise_mxint`. The integer
reference reads the same memories as the module, so both agree on every bit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from mase_hw.cells import Image, Netlist
from mase_hw.cells.unary_piecewise import UnaryPiecewise
from mase_hw.cells.unary_table import UnaryTable
from mase_hw.errors import UnsupportedError
from mase_hw.formats import Format
from mase_hw.formats._block import BlockFormat
from mase_hw.formats._encoding import Families
from mase_hw.formats.fixed import Fixed
from mase_hw.geometry.tensor import Order
from mase_hw.ops import _elementwise_minifloat as minifloat
from mase_hw.ops import _elementwise_mxint as mxint
from mase_hw.ops._base import (
    Apply,
    Call,
    Example,
    Operator,
    Reference,
    Spelling,
    example_values,
    torch_target,
)
from mase_hw.ops._blocks import block_order
from mase_hw.ops._domain import EVERYWHERE, Domain
from mase_hw.ops._elementwise import ELEMENTWISE, fields, is_all_fixed, one_cell
from mase_hw.ops._fixed import fixed
from mase_hw.ops._library import NAMESPACE, define
from mase_hw.ops._real_math import FAST, RealMath
from mase_hw.ops._unary_piecewise import GUARD_BITS, Piecewise, fit
from mase_hw.ops._unary_rounding import RealFunction
from mase_hw.ops._unary_table import MAX_TABLE_INPUT_BITS, FunctionTable

Attributes = Mapping[str, Any]
Evaluator = FunctionTable | Piecewise | minifloat.PatternTable | mxint.BlockFunction


class Unary(Operator):
    """An element-wise function of one operand.

    Subclasses write `equation`; where the function is not defined everywhere, `domain`; and where
    it is not smooth other than at zero and at the ends of its domain, `knots`.

    Attributes:
        required_attributes: values for the arguments that have no default, for tables and tests.

    Example:
        >>> class Cube(Unary):
        ...     name, targets = "cube", ("my.cube.default",)
        ...     def equation(self, x, math, attributes):
        ...         return x * x * x
    """

    families: ClassVar[Families] = ELEMENTWISE
    required_attributes: ClassVar[Attributes] = {}

    def __init__(self) -> None:
        namespace, name, _ = self.targets[0].split(".")
        if namespace == NAMESPACE and not hasattr(torch.ops.mase, name):
            define(name, self._composition)

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        """Yield the equation itself, for a function that ATen has no operator for."""
        if self.targets[0].startswith(f"{NAMESPACE}."):
            yield self._composition(x)

    def _composition(self, x: Tensor) -> Tensor:
        result: Tensor = self.equation(x, FAST, {})
        return result

    def examples(self) -> list[Example]:
        """One call with default arguments."""
        target, required = torch_target(self.targets[0]), dict(self.required_attributes)
        return [(Apply(lambda x: target(x, **required)), (example_values(3, 11),))]

    @abstractmethod
    def equation(self, x: Any, math: RealMath, attributes: Attributes) -> Any:
        """Return the real function of `x`, a float64 tensor or one real of high precision.

        Args:
            x: the operand's values, inside the domain.
            math: functions that suit `x`; `+ - * /` and comparisons work as usual.
            attributes: the call's other arguments; those left to their default are missing.
        """

    def compute(self, target: Any, arguments: Attributes, operands: Mapping[str, Tensor]) -> Tensor:
        """Evaluate the function, which torch's own kernel may round differently at a tie."""
        result: Tensor = self.function(arguments)(operands["data_in_0"], FAST)
        return result

    def domain(self, attributes: Attributes) -> Domain:
        """Return where the function is defined; `_domain` says what it gives elsewhere."""
        return EVERYWHERE

    def function(self, attributes: Attributes) -> RealFunction:
        """Return the function on the whole line: the equation, and what its domain adds to it."""
        domain = self.domain(attributes)

        def evaluate(x: Any, math: RealMath) -> Any:
            return domain.extend(lambda inside: self.equation(inside, math, attributes), x, math)

        return evaluate

    def knots(self, attributes: Attributes) -> Sequence[float]:
        """Return where, zero aside, the function or its slope is not continuous: two at most.

        The ends of the domain and the poles are known and count.
        """
        return ()

    def evaluator(self, operand: Format, result: Format, attributes: Attributes) -> Evaluator:
        """Return the integer arithmetic of this function between two formats, cached."""
        return _evaluator(self, operand, result, tuple(sorted(attributes.items())))

    def reference(self, call: Call) -> Reference:
        """Evaluate the table, or the piecewise polynomial."""
        return self._evaluator_of(call).evaluate

    def hardware(self, call: Call) -> Netlist:
        """Return the table or the polynomial."""
        evaluator = self._evaluator_of(call)
        if isinstance(evaluator, mxint.BlockFunction):
            return one_cell(call, mxint.unary_cell(call, evaluator))
        if isinstance(evaluator, Piecewise):
            return one_cell(call, _piecewise_cell(call, evaluator))
        words = Image(evaluator.result.encoding.width, lambda: evaluator.words)
        return one_cell(call, UnaryTable(*fields(call), words, beats=call.result.beats))

    def problems(self, call: Call) -> list[str]:
        """Add what the choice of formats makes impossible."""
        found = super().problems(call)
        if not found and mxint.serves(call):
            found = mxint.problems(call)
        elif not found and not is_all_fixed(call):
            found = minifloat.unary_problems(call)
        if not found:
            try:
                self._evaluator_of(call)
            except UnsupportedError as error:
                found.append(str(error))
        return found

    def block_axis(self, name: str) -> int | None:
        """Any: blocks stay as they are."""
        return None

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Blocks come whole, anything else in any."""
        if mxint.serves(call):
            return dict.fromkeys([*call.streams, *call.results], block_order(call.result))
        return super().orders(call)

    def _evaluator_of(self, call: Call) -> Evaluator:
        operand, result = call.operands["data_in_0"].quantized, call.result.quantized
        return self.evaluator(operand, result, call.attributes)


def fixed_formats(call: Call) -> tuple[Fixed, Fixed]:
    """Return the formats of the operand and of the result."""
    return fixed(call.operands["data_in_0"]), fixed(call.result)


@lru_cache(maxsize=256)
def _evaluator(
    operator: Unary, operand: Format, result: Format, items: tuple[tuple[str, Any], ...]
) -> Evaluator:
    attributes = dict(items)
    function = operator.function(attributes)
    steep = operator.domain(attributes).knots
    knots = (*operator.knots(attributes), *steep)
    if isinstance(operand, BlockFormat) and isinstance(result, BlockFormat):
        return mxint.BlockFunction.fit(function, knots, operand, result, operator.name)
    if not isinstance(operand, Fixed) or not isinstance(result, Fixed):
        return minifloat.PatternTable.tabulate(function, operand, result)
    if operand.width <= MAX_TABLE_INPUT_BITS:
        return FunctionTable.tabulate(function, operand, result)
    return fit(function, knots, operand, result, operator.name, steep)


def _piecewise_cell(call: Call, piecewise: Piecewise) -> UnaryPiecewise:
    """Return the polynomial's cell; knots are offset so that they are signed 32-bit numbers."""
    operand, regions, grid = piecewise.operand, piecewise.regions, piecewise.grid
    offset = 0 if operand.signed else 1 << (operand.width - 1)
    return UnaryPiecewise(
        *fields(call),
        len(regions),
        sum(not region.upward for region in regions),
        tuple(region.low - offset for region in regions[1:]),
        piecewise.bases,
        grid.u_width,
        grid.base_exponent,
        grid.index_bits,
        len(piecewise.coefficients),
        *piecewise.widths,
        piecewise.slope_bits,
        piecewise.sum_bits,
        GUARD_BITS,
        Image(sum(piecewise.widths), lambda: piecewise.words),
        beats=call.result.beats,
    )
