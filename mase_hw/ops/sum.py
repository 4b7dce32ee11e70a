"""Sum over dimensions (torch.sum), exact and rounded once."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._reduce import Accumulation


class Sum(Accumulation):
    """`y = cast(sum x)`."""

    name: ClassVar[str] = "sum"
    targets: ClassVar[tuple[str, ...]] = ("aten.sum.dim_IntList",)

    def divisor(self, call: Call) -> int:
        """One."""
        return 1

    def examples(self) -> list[Example]:
        """Over lanes, over rows, over both."""
        return [
            (Apply(lambda x: x.sum(-1)), (example_values(2, 3, 7),)),
            (Apply(lambda x: x.sum(1, keepdim=True)), (example_values(2, 3, 4),)),
            (Apply(lambda x: x.sum((1, 2))), (example_values(2, 2, 5),)),
        ]
