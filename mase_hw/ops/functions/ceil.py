"""The smallest whole number that is not below (torch.ceil)."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops.functions._steps import Step


class Ceil(Step):
    """The smallest whole number that is not below."""

    name: ClassVar[str] = "ceil"
    targets: ClassVar[tuple[str, ...]] = ("aten.ceil.default", "aten.ceil_.default")
    rounding: ClassVar[str] = "floor"
    negates: ClassVar[bool] = True
