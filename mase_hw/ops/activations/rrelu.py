"""Randomized leaky rectifier at inference, its slope the mean of its bounds (torch.nn.RReLU)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops._composite import Composite


class RReLU(Composite):
    """Randomized leaky rectifier at inference, its slope the mean of its bounds."""

    name = "rrelu"
    targets = ("aten.rrelu.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        slope = (float(call.attributes["lower"]) + float(call.attributes["upper"])) / 2
        return [aten.leaky_relu.default(operands["data_in_0"], slope)]

    def examples(self) -> list[Example]:
        """Bounds of one's own."""
        return [(nn.RReLU(0.1, 0.4), (example_values(3, 7),))]
