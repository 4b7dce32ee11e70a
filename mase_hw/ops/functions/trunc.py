"""The whole number towards zero (torch.trunc, torch.fix)."""

from __future__ import annotations

from mase_hw.ops.functions._steps import Step


class Trunc(Step):
    """The whole number towards zero."""

    name = "trunc"
    targets = (
        "aten.trunc.default",
        "aten.trunc_.default",
        "aten.fix.default",
    )
    rounding = "toward_zero"
