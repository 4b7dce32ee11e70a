"""Two dimensions exchanged (torch.transpose)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.permute import Permute


class Transpose(Permute):
    """Dimensions `dim0` and `dim1` exchanged."""

    name: ClassVar[str] = "transpose"
    targets: ClassVar[tuple[str, ...]] = ("aten.transpose.int",)

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        """Transpose every inference."""
        return tensor.transpose(call.attributes["dim0"], call.attributes["dim1"])

    def examples(self) -> list[Example]:
        """A matrix."""
        return [(Apply(lambda x: x.transpose(1, 2)), (example_values(2, 4, 5),))]
