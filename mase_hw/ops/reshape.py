"""Another shape for the same elements in row-major order (torch.reshape and its relatives)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._layout import Layout


class Reshape(Layout):
    """Row-major order stays; only the shape, and so the tiling, changes."""

    name: ClassVar[str] = "reshape"
    targets: ClassVar[tuple[str, ...]] = (
        "aten.view.default",
        "aten.reshape.default",
        "aten._unsafe_view.default",
        "aten.unflatten.int",
        "aten.squeeze.default",
        "aten.squeeze.dim",
        "aten.squeeze.dims",
        "aten.unsqueeze.default",
    )

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        """Reshape every inference."""
        return tensor.reshape(-1, *call.result.shape[1:])

    def examples(self) -> list[Example]:
        """Rows split and joined."""
        return [
            (Apply(lambda x: x.reshape(-1, 4, 3)), (example_values(2, 12),)),
            (Apply(lambda x: x.reshape(-1, 2, 9)), (example_values(2, 6, 3),)),
            (Apply(lambda x: x.unsqueeze(1)), (example_values(2, 5),)),
        ]
