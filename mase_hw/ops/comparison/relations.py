"""Relations of two tensors: 1 where one holds, else 0, a whole number without sign.

Operands are compared as they are in their own formats, exactly.

A choice between two tensors (torch.where): `y = a` where the condition holds, else `b`.

Each operand is a stream or a constant; the one that is chosen is rounded to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from mase_hw.arithmetic.fixed_point import (
    MAX_BITS,
    align,
    bounds_of,
    combined_bits,
    exact_combination,
    fixed,
    is_whole,
    whole_format,
)
from mase_hw.cells import Netlist
from mase_hw.cells.where_fixed import WhereFixed
from mase_hw.formats import FIXED_POINT, Format, make_format
from mase_hw.formats.fixed import MIN_WIDTH_BITS
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
from mase_hw.ops._interfaces import (
    Broadcasting,
    Choosing,
    Elementwise,
    Exact,
    Numeric,
    Ordered,
    Selecting,
    WholeNumbers,
)
from mase_hw.ops._one_cell import fields, one_cell
from mase_hw.ops.arithmetic.sums_and_products import Binary
from mase_hw.ops.movement._indices import broadcast_orders

TRUTH: Format = make_format(
    {"name": "fixed", "width": MIN_WIDTH_BITS, "frac_width": 0, "signed": False}
)


class _Comparison(Binary, Selecting):
    """A relation.

    Args:
        name: of the operator and of the cell's operation.
        packet: name of the torch operator in `aten`.
        relation: of real values.
    """

    families = FIXED_POINT
    homogeneous = True

    def __init__(self, name: str, packet: str, relation: Callable[..., Tensor]) -> None:
        self.name, self.operation, self._relation = name, name, relation
        self.targets = (f"aten.{packet}.Tensor", f"aten.{packet}.Scalar")

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return self._relation(first, second)

    def operand_format(self, call: Call, name: str) -> Format | None:
        """Return whole numbers that hold all constants beside whole numbers, and one more each way.

        What lies beyond them is in the same relation to all as the number beyond.
        """
        whole = all(spec.dtype.startswith("int") for spec in call.streams.values())
        if not whole or not call.constants or not all(map(is_whole, call.constants.values())):
            return None
        bounds = [bounds_of(item) for item in call.constants.values()]
        return whole_format(min(low for low, _ in bounds) - 1, max(high for _, high in bounds) + 1)

    def result_format(self, call: Call) -> Format | None:
        return TRUTH

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        overloads = torch_target(self.targets[0].rpartition(".")[0])
        values = example_values(3, 7)
        return [
            example(target, values, torch.where(values > 0, values, -values)),
            example(lambda x: overloads(x, 0.25), values),
            example(lambda x, y: overloads(x, y) * 0.75, values, (3, 1)),
        ]


RELATIONS = (
    _Comparison("equal", "eq", torch.eq),
    _Comparison("not_equal", "ne", torch.ne),
    _Comparison("greater", "gt", torch.gt),
    _Comparison("greater_equal", "ge", torch.ge),
    _Comparison("less", "lt", torch.lt),
    _Comparison("less_equal", "le", torch.le),
)


_CONDITION = "data_in_2"


class Where(
    Operator, Broadcasting, Elementwise, WholeNumbers, Numeric, Exact, Ordered, Choosing
):  # fmt: skip
    """The condition is any tensor, which holds where it is not zero."""

    homogeneous = True
    name = "where"
    targets = (
        "aten.where.self",
        "aten.where.ScalarSelf",
        "aten.where.ScalarOther",
        "aten.where.Scalar",
    )
    operand_names: Mapping[str, str] = {
        "condition": _CONDITION,
        "self": "data_in_0",
        "other": "data_in_1",
    }

    def operand_format(self, call: Call, name: str) -> Format | None:
        """Return that of 0 and 1 for the condition."""
        return TRUTH if name == _CONDITION else None

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        for name, value in call.constants.items():
            if not bool(value.isfinite().all()):
                problems.append(f"{name} is not finite; give the least number that counts instead")
        if not call.streams:
            problems.append("all operands are constant")
        if not problems and combined_bits("add", *self._formats(call)) > MAX_BITS:
            problems.append(
                f"operands side by side take more than {MAX_BITS} bits; use narrower ones"
            )
        return problems

    @staticmethod
    def _formats(call: Call) -> tuple[Any, Any]:
        return fixed(call.operands["data_in_0"]), fixed(call.operands["data_in_1"])

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        return exact_combination("maximum", *self._formats(call))

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        """Choose; the scalar overloads take quantised constants, which are tensors, too."""
        return torch.where(operands[_CONDITION] != 0, operands["data_in_0"], operands["data_in_1"])

    def reference(self, call: Call) -> Reference:
        first, second = self._formats(call)
        fraction = max(first.frac_width, second.frac_width)
        result, streams = call.result.quantized, list(call.streams)
        constants = {name: call.constant_codes(name) for name in call.constants}

        def compute(*codes: Tensor) -> Tensor:
            operands = {**constants, **dict(zip(streams, codes, strict=True))}
            left = align(operands["data_in_0"], first, fraction)
            right = align(operands["data_in_1"], second, fraction)
            return result.from_fixed(torch.where(operands[_CONDITION] != 0, left, right), fraction)

        return compute

    def hardware(self, call: Call) -> Netlist:
        second, condition = (
            call.operands[name].quantized.encoding for name in ("data_in_1", _CONDITION)
        )
        cell = WhereFixed(*fields(call), second, condition, beats=call.result.beats)
        return one_cell(call, cell)

    def orders(self, call: Call) -> dict[str, Order | None]:
        return broadcast_orders(call)

    def examples(self) -> list[Example]:
        values, others = example_values(3, 7), example_values(3, 7, seed=1)
        mask = example_values(7, seed=2) > 0
        return [
            example(lambda x, y, z: torch.where(z > 0.25, x, y), values, others, (3, 7)),
            example(lambda x: torch.where(x >= 0, 1.0, -1.0), values),
            example(Apply(lambda x, y, kept: torch.where(kept, x, y), mask), values, others),
            example(lambda x, y: torch.where(y > 0, x, 0.5), (3, 2, 4), (3, 1, 4)),
        ]
