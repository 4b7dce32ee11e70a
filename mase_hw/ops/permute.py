"""Dimensions in another order (torch.permute)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._layout import Layout


class Permute(Layout):
    """`y[i_d0, i_d1, ...] = x[i_0, i_1, ...]`."""

    name: ClassVar[str] = "permute"
    targets: ClassVar[tuple[str, ...]] = ("aten.permute.default",)

    def problems(self, call: Call) -> list[str]:
        """Also refuse to move the batch dimension."""
        found = super().problems(call)
        data = call.operands["data_in_0"]
        if data.shape[0] == 1 and self.move(call, _probe(data.shape)).shape[0] != 2:
            found.append("the batch dimension moves; keep it first")
        return found

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        """Permute every inference."""
        return tensor.permute(call.attributes["dims"])

    def examples(self) -> list[Example]:
        """Three dimensions turned."""
        return [(Apply(lambda x: x.permute(0, 3, 1, 2)), (example_values(2, 2, 3, 4),))]


def _probe(shape: tuple[int, ...]) -> Tensor:
    """Return an empty-storage tensor of two inferences."""
    return Tensor(1).expand(2, *shape[1:])
