"""Variance and mean over dimensions (torch.var_mean)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops.reductions.variance import variance_and_mean, variance_problems


class VarMean(Composite):
    """Two results, each computed by itself."""

    name = "var_mean"
    targets = ("aten.var_mean.correction", "aten.var_mean.dim")

    def problems(self, call: Call) -> list[str]:
        """Refuse what a variance refuses."""
        return variance_problems(call) or super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the variance and the mean."""
        found = variance_and_mean(call, operands["data_in_0"])
        return None if found is None else [*found]

    def examples(self) -> list[Example]:
        """Both; the variance alone."""
        return [
            (Apply(lambda x: torch.cat(torch.var_mean(x, -1), 1)), (example_values(2, 3, 5),)),
            (Apply(lambda x: torch.var_mean(x, -1)[0]), (example_values(2, 3, 5),)),
        ]
