"""A multilayer perceptron 64-64-32-10 on the digits, in 8-bit fixed point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._mlp import perceptron


class DigitsMLP(RegisteredModel):
    """Three linear layers with rectifiers between."""

    name = "digits-mlp"
    data = "digits"
    config: ClassVar[Mapping[str, object]] = {
        "by": "type",
        "default": {
            "config": {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
        },
    }

    def build(self, first: int = 64, second: int = 32) -> nn.Module:
        """Return the perceptron.

        Args:
            first: width of the first hidden layer.
            second: width of the second.
        """
        return perceptron(64, first, second, 10)
