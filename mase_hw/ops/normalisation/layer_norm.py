"""Layer normalisation, `y = (x - mean) / sqrt(variance + eps) * weight + bias` (arXiv:1607.06450).

Sums are exact, and the result is rounded once: see `mase_hw/approximation/row_norm.py` for the
integers. The result is less than one step from the exact one, or one and a half where it is rounded
down or towards zero.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example, example_values
from mase_hw.ops.normalisation._row_norm import RowNorm


class LayerNorm(RowNorm):
    """Elements of the last dimensions over their standard deviation, around their mean."""

    name = "layer_norm"
    targets = ("aten.layer_norm.default",)
    centred = True

    def epsilon(self, call: Call) -> float:
        """Constant that is added to the variance."""
        return float(call.attributes.get("eps", 1e-5))

    def normalize(self, operands: Mapping[str, Tensor], size: list[int], epsilon: float) -> Tensor:
        given = [operands.get(name) for name in ("weight", "bias")]
        return aten.layer_norm.default(operands["data_in_0"], size, *given, epsilon)

    def examples(self) -> list[Example]:
        norm = nn.LayerNorm(7)
        with torch.no_grad():
            norm.weight.copy_(example_values(7, seed=1))
            norm.bias.copy_(example_values(7, seed=2))
        return [
            (norm, (example_values(3, 2, 7),)),
            example(nn.LayerNorm(4, elementwise_affine=False), (3, 4)),
            example(nn.LayerNorm((3, 2), bias=False), (3, 2, 3, 2)),
        ]
