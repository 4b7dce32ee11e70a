"""Adjacent dimensions joined into one (torch.flatten)."""

from __future__ import annotations

from mase_hw.ops._base import Apply, Example, example_values
from mase_hw.ops.movement.reshape import Reshape


class Flatten(Reshape):
    """Adjacent dimensions joined into one."""

    name = "flatten"
    targets = ("aten.flatten.using_ints",)

    def examples(self) -> list[Example]:
        """All dimensions, and the last two."""
        return [
            (Apply(lambda x: x.flatten(1)), (example_values(2, 3, 4),)),
            (Apply(lambda x: x.flatten(2)), (example_values(2, 2, 3, 2),)),
        ]
