"""Sign of a number: -1, 0 or 1 (torch.sign)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Sign(Composite):
    """Two comparisons with zero, and the choices between them."""

    name = "sign"
    targets = ("aten.sign.default", "aten.sgn.default")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        data, aten = operands["data_in_0"], torch.ops.aten
        negative = aten.where.Scalar(aten.lt.Scalar(data, 0), -1.0, 0.0)
        return [aten.where.ScalarSelf(aten.gt.Scalar(data, 0), 1.0, negative)]

    def examples(self) -> list[Example]:
        """Numbers and a zero."""
        return [(Apply(lambda x: torch.sign(x.relu() - 0.5)), (example_values(3, 7),))]
