"""Two dimensions exchanged (torch.transpose)."""

from __future__ import annotations

from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.movement.permute import Permute


class Transpose(Permute):
    """Dimensions `dim0` and `dim1` exchanged."""

    name = "transpose"
    targets = (
        "aten.transpose.int",
        "aten.swapaxes.default",
        "aten.swapdims.default",
    )

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        given = call.attributes
        first, second = (given.get(f"dim{n}", given.get(f"axis{n}", n)) for n in (0, 1))
        return tensor.transpose(int(first), int(second))

    def examples(self) -> list[Example]:
        """A matrix, and by torch's other word for it."""
        return [
            (Apply(lambda x: x.transpose(1, 2)), (example_values(2, 4, 5),)),
            (Apply(lambda x: x.swapaxes(1, -1)), (example_values(2, 3, 2, 2),)),
        ]
