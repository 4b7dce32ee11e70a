"""Element-wise operators of two operands, each a stream or a constant, with broadcasting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from torch import Tensor

from mase_hw.arithmetic.fixed_point import exact_combination, fixed
from mase_hw.cells import Netlist
from mase_hw.formats import Format
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import (
    Apply,
    Attributes,
    Call,
    Example,
    Operator,
    Reference,
    example,
    example_values,
    torch_target,
)
from mase_hw.ops._elementwise import ELEMENTWISE, elements_of
from mase_hw.ops._numbers import Exact, Numeric, WholeNumbers
from mase_hw.ops._one_cell import one_cell
from mase_hw.ops._tiling import Broadcasting, Elementwise, Ordered
from mase_hw.ops.movement._broadcast import broadcast_orders


class Binary(Operator, Broadcasting, Elementwise, WholeNumbers, Exact, Numeric, Ordered):
    """`y = cast(f(a, b))` with `f` exact, in the arithmetic that `elements_of` chooses.

    Attributes:
        operation: `f`: `add`, `subtract`, `multiply` or, in fixed point, another `Operation`.
    """

    families = ELEMENTWISE
    operation: str

    @abstractmethod
    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        """Return `f` of real values."""

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        """Return `f`; the scalar overloads take quantised constants, which are tensors, too."""
        return self.combine_values(operands["data_in_0"], operands["data_in_1"])

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if call.attributes.get("alpha", 1) != 1:
            problems.append(
                f"alpha is {call.attributes['alpha']}: run decompose_transform_pass first"
            )
        if not call.streams:
            problems.append("both operands are constant")
        return problems or elements_of(call).binary_problems(self.operation)

    def reference(self, call: Call) -> Reference:
        return elements_of(call).binary_reference(self.operation)

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        return exact_combination(
            self.operation, fixed(call.operands["data_in_0"]), fixed(call.operands["data_in_1"])
        )

    def hardware(self, call: Call) -> Netlist:
        """Return a cell; a constant operand comes from a ROM as beats of the result."""
        return one_cell(call, elements_of(call).binary_cell(self.operation))

    def block_axis(self, name: str) -> int | None:
        return None

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Blocks come whole, anything else in any; smaller streams take it too."""
        return elements_of(call).orders(broadcast_orders(call))

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        any_overload = torch_target(self.targets[0].rpartition(".")[0])
        row = example_values(7, seed=1)
        return [
            example(target, (3, 7), (3, 7)),
            example(target, (3, 2, 1, 3), (3, 1, 5, 1)),
            example(Apply(target, row), (3, 2, 7)),
            example(Apply(target, row[:1]), (3, 7)),
            example(lambda x: any_overload(x, 0.75), (3, 7)),
        ]
