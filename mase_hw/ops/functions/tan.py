"""Tangent (torch.tan), a quotient of sine and cosine, each rounded: coarse near the poles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Tan(Composite):
    """Tangent, a quotient of sine and cosine, each rounded: coarse near the poles."""

    name = "tan"
    targets = ("aten.tan.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        data = operands["data_in_0"]
        return [aten.div.Tensor(aten.sin.default(data), aten.cos.default(data))]

    def examples(self) -> list[Example]:
        """Angles of less than a quarter turn."""
        return [(Apply(lambda x: torch.tan(x.clamp(-1.0, 1.0))), (example_values(3, 7),))]
