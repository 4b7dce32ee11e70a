"""A one at the place of a whole number (torch.nn.functional.one_hot)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import Composite


class OneHot(Composite):
    """A comparison with every place; what is no place has zeros alone."""

    name = "one_hot"
    targets = ("aten.one_hot.default",)

    def problems(self, call: Call) -> list[str]:
        """Refuse a number of places that follows from the data."""
        if int(call.attributes.get("num_classes", -1)) < 0:
            return ["its number of classes depends on the data: give it num_classes"]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        count = int(call.attributes.get("num_classes", -1))
        if count < 0:
            return None
        numbers = aten.unsqueeze.default(operands["data_in_0"], -1)
        ones = aten.eq.Tensor(numbers, torch.arange(count))
        return [aten._to_copy.default(ones, dtype=torch.int64)]

    def examples(self) -> list[Example]:
        numbers = torch.randint(0, 5, (2, 3), generator=torch.Generator().manual_seed(0))
        return [example(lambda x: one_hot(x, 5).float() * 0.5, numbers)]
