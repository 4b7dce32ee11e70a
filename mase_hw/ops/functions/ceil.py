"""The smallest whole number that is not below (torch.ceil)."""

from __future__ import annotations

from mase_hw.ops.functions._steps import Step


class Ceil(Step):
    """The smallest whole number that is not below."""

    name = "ceil"
    targets = ("aten.ceil.default", "aten.ceil_.default")
    rounding = "floor"
    negates = True
