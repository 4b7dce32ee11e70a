"""The largest whole number that is not above (torch.floor)."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops.functions._steps import Step


class Floor(Step):
    """The largest whole number that is not above."""

    name: ClassVar[str] = "floor"
    targets: ClassVar[tuple[str, ...]] = ("aten.floor.default", "aten.floor_.default")
    rounding: ClassVar[str] = "floor"
