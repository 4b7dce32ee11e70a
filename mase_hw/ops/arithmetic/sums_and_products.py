"""Sums, differences, products, the larger and the smaller of two tensors, with broadcasting.

Each operand is a stream or a constant.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.arithmetic.fixed_point import exact_combination, fixed
from mase_hw.cells import Netlist
from mase_hw.formats import FIXED_POINT, Format
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
    overloads,
    torch_target,
)
from mase_hw.ops._elementwise import ELEMENTWISE, elements_of
from mase_hw.ops._interfaces import (
    Affine,
    Borrowed,
    Broadcasting,
    Choosing,
    Commutative,
    Elementwise,
    Exact,
    Foldable,
    Gained,
    Judged,
    Multiplying,
    Numeric,
    Ordered,
    Rewritten,
    Selecting,
    Summing,
    WholeNumbers,
)
from mase_hw.ops._one_cell import one_cell
from mase_hw.ops.movement._indices import broadcast_orders


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


class Add(Binary, Commutative, Rewritten, Summing, Affine):
    """Sum of two tensors, `y = a + b`, exact and rounded once."""

    name = "add"
    targets = ("aten.add.Tensor", "aten.add.Scalar")
    homogeneous = True
    operation = "add"
    opposite = "subtract"

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Write a factor of the second operand, `alpha`, as a product, and -1 as the other sign."""
        alpha = call.attributes.get("alpha", 1)
        if alpha == 1:
            return None
        first, second = operands["data_in_0"], operands["data_in_1"]
        if alpha == -1:
            return [_combined(self.opposite, first, second)]
        number = isinstance(second, int | float)
        scaled = second * alpha if number else aten.mul.Tensor(second, alpha)
        return [_combined(self.operation, first, scaled)]

    def affine(self, call: Call) -> tuple[Tensor, Tensor] | None:
        if len(call.constants) != 1 or call.attributes.get("alpha", 1) != 1:
            return None
        ((name, shift),), ((signs, _),) = call.constants.items(), self.added(call)
        (scale,) = (sign for operand, sign in signs.items() if operand != name)
        return torch.tensor(float(scale)), signs[name] * shift

    def added(self, call: Call) -> Iterable[tuple[Mapping[str, int], int]]:
        return [(dict.fromkeys(call.operands, 1), 1)]

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return first + second


def _combined(operation: str, first: Tensor, second: Tensor) -> Tensor:
    """Return a sum or a difference of two tensors, one of which may be a Python number."""
    if operation == "subtract" and isinstance(first, int | float):
        return aten.rsub.Scalar(second, first)
    if operation == "add" and isinstance(first, int | float):
        first, second = second, first
    packet = aten.add if operation == "add" else aten.sub
    target = packet.Scalar if isinstance(second, int | float) else packet.Tensor
    return target(first, second)


class Mul(Binary, Commutative, Borrowed, Foldable, Affine, Multiplying, Judged):
    """Product of two tensors, `y = a * b`, exact and rounded once."""

    row_unit = "factor"
    name = "mul"
    targets = ("aten.mul.Tensor", "aten.mul.Scalar")
    operation = "multiply"
    also_for = "mask"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return first * second

    def products(self, call: Call) -> int:
        return 1

    def affine(self, call: Call) -> tuple[Tensor, Tensor] | None:
        if len(call.constants) != 1:
            return None
        (factors,) = call.constants.values()
        return factors, torch.zeros(())

    def fold(self, call: Call, producer: Call) -> Mapping[str, Tensor] | None:
        if len(call.constants) != 1 or not isinstance(producer.operator, Gained):
            return None
        (factors,), size = call.constants.values(), call.result.shape[-1]
        if call.result.shape != producer.result.shape:
            return None
        if tuple(factors.shape)[-1:] != (size,) or factors.numel() != size:
            return None
        row = factors.reshape(size)
        found = (
            {"weight": row * producer.constants["weight"].reshape(-1)}
            if "weight" in producer.constants
            else {"weight": row}
        )
        if "bias" in producer.constants:
            found["bias"] = row * producer.constants["bias"].reshape(-1)
        return found


class Sub(Add, Judged):
    """Difference of two tensors, `y = a - b` (torch.sub), exact and rounded once."""

    row_unit = "offset"
    name = "sub"
    targets = ("aten.sub.Tensor", "aten.sub.Scalar")
    operation = "subtract"
    opposite = "add"

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return first - second

    def added(self, call: Call) -> Iterable[tuple[Mapping[str, int], int]]:
        return [({"data_in_0": 1, "data_in_1": -1}, 1)]


class ReverseSub(Sub):
    """Difference with the operands exchanged, `y = b - a` (torch.rsub), as in `1 - x`."""

    name = "rsub"
    targets = ("aten.rsub.Tensor", "aten.rsub.Scalar")
    operand_names: Mapping[str, str] = {"self": "data_in_1", "other": "data_in_0"}


class _Extremum(Binary, Selecting, Choosing, Commutative):
    """The larger or the smaller of two tensors, element by element, rounded once.

    Args:
        name: of the operator and of the cell's operation.
        targets: torch operators of the default overload, and full names.
        function: of real values.
    """

    families = FIXED_POINT
    homogeneous = True

    def __init__(self, name: str, targets: str, function: Callable[..., Tensor]) -> None:
        self.name, self.operation, self._function = name, name, function
        self.targets = overloads(targets)

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return self._function(first, second)

    def examples(self) -> list[Example]:
        return super().examples()[:-1]


EXTREMA = (
    _Extremum("maximum", "maximum aten.max.other", torch.maximum),
    _Extremum("minimum", "minimum fmin aten.min.other", torch.minimum),
)
