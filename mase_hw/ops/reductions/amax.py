"""The largest of a row."""

from __future__ import annotations

from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._numbers import Numeric, Selecting
from mase_hw.ops.reductions._reduce import Accumulation


class Amax(Accumulation, Selecting, Numeric):
    """Largest element over dimensions (torch.amax)."""

    name = "amax"
    targets = ("aten.amax.default", "aten.max.default")
    maximum = True
    keeps_format = True

    def divisor(self, call: Call) -> int:
        return 1

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.amax(-1), (2, 3, 7)),
            example(lambda x: x.amax((2, 3), keepdim=True), (2, 5, 3, 2)),
        ]
