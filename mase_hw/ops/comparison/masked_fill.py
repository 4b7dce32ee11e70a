"""A number where a mask holds, else the tensor (torch.Tensor.masked_fill)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class MaskedFill(Composite):
    """A choice between a number and the tensor."""

    name = "masked_fill"
    targets = (
        "aten.masked_fill.Scalar",
        "aten.masked_fill.Tensor",
    )
    operand_names: ClassVar[Mapping[str, str]] = {
        "self": "data_in_0",
        "mask": "data_in_1",
        "value": "value",
    }

    def problems(self, call: Call) -> list[str]:
        value = call.constants.get("value")
        if value is not None and not math.isfinite(float(value)):
            return [f"it fills with {float(value)}; give the least number that counts instead"]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        value = call.constants.get("value")
        if value is None or value.numel() != 1 or not math.isfinite(float(value)):
            return None
        mask, data = operands["data_in_1"], operands["data_in_0"]
        real = call.operands["data_in_0"].dtype.startswith(("float", "bfloat"))
        number = float(value) if real else int(value)
        return [aten.where.ScalarSelf(mask, number, data)]

    def examples(self) -> list[Example]:
        """A mask that streams, and a constant one."""
        mask = example_values(5, seed=1) > 0
        return [
            (Apply(lambda x: x.masked_fill(x < 0, 0.5)), (example_values(2, 5),)),
            (Apply(lambda x, kept: x.masked_fill(kept, -1.0), mask), (example_values(2, 5),)),
        ]
