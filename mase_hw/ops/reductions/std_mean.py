"""Standard deviation and mean over dimensions (torch.std_mean)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops.reductions.variance import variance_and_mean, variance_problems


class StdMean(Composite):
    """Two results, each computed by itself."""

    name = "std_mean"
    targets = ("aten.std_mean.correction", "aten.std_mean.dim")

    def problems(self, call: Call) -> list[str]:
        """Refuse what a variance refuses."""
        return variance_problems(call) or super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the standard deviation and the mean."""
        found = variance_and_mean(call, operands["data_in_0"])
        return None if found is None else [aten.sqrt.default(found[0]), found[1]]

    def examples(self) -> list[Example]:
        """Both; the standard deviation alone."""
        return [
            (Apply(lambda x: torch.cat(torch.std_mean(x, -1), 1)), (example_values(2, 3, 5),)),
            (Apply(lambda x: torch.std_mean(x, -1)[0]), (example_values(2, 3, 5),)),
        ]
