"""Instance normalisation (arXiv:1607.08022): every channel of every inference by itself.

With the statistics of the inference it is a group normalisation of one channel a group; with those
of training it is a batch normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops.normalisation.group_norm import grouped


class InstanceNorm(Composite):
    """Elements of each channel over their standard deviation, around their mean."""

    name = "instance_norm"
    targets = ("aten.instance_norm.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return a normalisation of rows, or a batch normalisation."""
        epsilon = float(call.attributes["eps"])
        if call.attributes["use_input_stats"]:
            return [grouped(call, operands, call.operands["data_in_0"].shape[1], epsilon)]
        names = ("data_in_0", "weight", "bias", "running_mean", "running_var")
        given = [operands.get(name) for name in names]
        return [aten.batch_norm.default(*given, False, 0.0, epsilon, False)]

    def examples(self) -> list[Example]:
        """Without statistics of training, and with them."""
        kept = nn.InstanceNorm1d(3, track_running_stats=True).eval()
        return [
            example(nn.InstanceNorm1d(3), (3, 3, 5)),
            (kept, (example_values(3, 3, 4),)),
        ]
