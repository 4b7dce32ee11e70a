"""Functions that give whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._rewriting import Rewritten
from mase_hw.ops.functions._steps import Step


class Floor(Step):
    """The largest whole number that is not above (torch.floor)."""

    name = "floor"
    targets = ("aten.floor.default", "aten.floor_.default")
    rounding = "floor"


class Ceil(Step):
    """The smallest whole number that is not below (torch.ceil)."""

    name = "ceil"
    targets = ("aten.ceil.default", "aten.ceil_.default")
    rounding = "floor"
    negates = True


class Trunc(Step):
    """The whole number towards zero (torch.trunc, torch.fix)."""

    name = "trunc"
    targets = (
        "aten.trunc.default",
        "aten.trunc_.default",
        "aten.fix.default",
    )
    rounding = "toward_zero"


class Round(Step, Rewritten):
    """The nearest whole number, of two the even one (torch.round)."""

    name = "round"
    targets = (
        "aten.round.default",
        "aten.round_.default",
        "aten.round.decimals",
    )
    rounding = "nearest_even"

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return whole numbers of tenths, hundredths, ..., where decimals are asked for."""
        scale = 10.0 ** int(call.attributes.get("decimals", 0))
        if scale == 1.0:
            return None
        scaled = aten.mul.Tensor(operands["data_in_0"], scale)
        return [aten.mul.Tensor(aten.round.default(scaled), 1.0 / scale)]

    def examples(self) -> list[Example]:
        tenths = Apply(lambda x: torch.round(x, decimals=1))
        return [*super().examples(), (tenths, (example_values(2, 5),))]
