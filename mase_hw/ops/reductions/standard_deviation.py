"""Standard deviation over dimensions (torch.std): the root of the variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops.reductions.variance import variance, variance_problems


class StandardDeviation(Composite):
    """Means, squares and the root are rounded each."""

    name = "standard_deviation"
    targets = ("aten.std.correction", "aten.std.dim")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        found = variance(call, operands["data_in_0"])
        return None if found is None else [aten.sqrt.default(found[0])]

    def problems(self, call: Call) -> list[str]:
        """Refuse what a variance refuses."""
        return variance_problems(call) or super().problems(call)

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: x.std(1)), (example_values(2, 5, 3),))]
