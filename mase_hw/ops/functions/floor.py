"""The largest whole number that is not above (torch.floor)."""

from __future__ import annotations

from mase_hw.ops.functions._steps import Step


class Floor(Step):
    """The largest whole number that is not above."""

    name = "floor"
    targets = ("aten.floor.default", "aten.floor_.default")
    rounding = "floor"
