"""A choice between two tensors (torch.where): `y = a` where the condition holds, else `b`.

Each operand is a stream or a constant; the one that is chosen is rounded to the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mase_hw.arithmetic.fixed_point import MAX_BITS, align, combined_bits, exact_combination, fixed
from mase_hw.cells import Netlist
from mase_hw.cells.where_fixed import WhereFixed
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
)
from mase_hw.ops._numbers import Choosing, Exact, Numeric, WholeNumbers
from mase_hw.ops._one_cell import fields, one_cell
from mase_hw.ops._tiling import Broadcasting, Elementwise, Ordered
from mase_hw.ops.comparison.relations import TRUTH
from mase_hw.ops.movement._indices import broadcast_orders

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
        """One for all; smaller streams take it, too."""
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
