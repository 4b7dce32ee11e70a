"""A multilayer perceptron 16-64-32-32-26 on printed letters, in 8-bit fixed point."""

from __future__ import annotations

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._formats import EIGHT_BITS
from mase_hw.models._mlp import perceptron


class LetterMLP(RegisteredModel):
    """Four linear layers with rectifiers between: the shape of the LHC jet tagger."""

    name = "letter-mlp"
    data = "letter"
    config = EIGHT_BITS
    epochs = 20

    def build(self) -> nn.Module:
        return perceptron(16, 64, 32, 32, 26)
