"""The whole number towards zero (torch.trunc, torch.fix)."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops.functions._steps import Step


class Trunc(Step):
    """The whole number towards zero."""

    name: ClassVar[str] = "trunc"
    targets: ClassVar[tuple[str, ...]] = (
        "aten.trunc.default",
        "aten.trunc_.default",
        "aten.fix.default",
    )
    rounding: ClassVar[str] = "toward_zero"
