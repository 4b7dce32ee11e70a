"""Tests of what a number is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class IsFinite(Composite):
    """Where something is a finite number (torch.isfinite): everywhere."""

    name = "isfinite"
    targets = ("aten.isfinite.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return [aten.eq.Tensor(operands["data_in_0"], operands["data_in_0"])]

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: torch.where(x.isfinite(), x, 0.0)), (example_values(2, 5),)),
        ]


class IsNan(Composite):
    """Where something is no number (torch.isnan): nowhere, as fixed point has nothing else."""

    name = "isnan"
    targets = ("aten.isnan.default", "aten.isinf.default")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return [aten.ne.Tensor(operands["data_in_0"], operands["data_in_0"])]

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: torch.where(x.isnan(), 0.0, x)), (example_values(2, 5),)),
            (Apply(lambda x: torch.where(x.isinf(), 0.0, x)), (example_values(2, 5),)),
        ]


class Signbit(Composite):
    """Where something is less than zero (torch.signbit)."""

    name = "signbit"
    targets = ("aten.signbit.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        return [aten.lt.Scalar(operands["data_in_0"], 0.0)]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: torch.where(torch.signbit(x), 0.5, x)), (example_values(2, 5),))]
