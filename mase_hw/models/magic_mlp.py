"""A multilayer perceptron 10-64-32-32-2 on telescope images, in 8-bit fixed point."""

from __future__ import annotations

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._formats import EIGHT_BITS
from mase_hw.models._mlp import perceptron


class MagicMLP(RegisteredModel):
    """Four linear layers with rectifiers between: the shape of the LHC jet tagger."""

    name = "magic-mlp"
    data = "magic"
    config = EIGHT_BITS
    epochs = 20

    def build(self) -> nn.Module:
        return perceptron(10, 64, 32, 32, 2)
