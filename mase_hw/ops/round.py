"""The nearest whole number, of two the even one (torch.round)."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops._steps import Step


class Round(Step):
    """The nearest whole number, of two the even one."""

    name: ClassVar[str] = "round"
    targets: ClassVar[tuple[str, ...]] = (
        "aten.round.default",
        "aten.round_.default",
        "aten.round.decimals",
    )
    rounding: ClassVar[str] = "nearest_even"
