"""Relations of two tensors: 1 where one holds, else 0, a whole number without sign.

Operands are compared as they are in their own formats, exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw.arithmetic.whole import bounds_of, is_whole, whole_format
from mase_hw.formats import FIXED_POINT, Format, make_format
from mase_hw.formats.fixed import MIN_WIDTH_BITS
from mase_hw.ops._base import Call, Example, example, example_values, torch_target
from mase_hw.ops._numbers import Selecting
from mase_hw.ops.arithmetic.sums_and_products import Binary

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
