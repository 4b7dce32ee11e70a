"""A multilayer perceptron 16-64-32-32-26 on printed letters, in 8-bit fixed point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._formats import EIGHT_BITS
from mase_hw.models._mlp import perceptron


class LetterMLP(RegisteredModel):
    """Four linear layers with rectifiers between: the shape of the LHC jet tagger."""

    name: ClassVar[str] = "letter-mlp"
    data: ClassVar[str] = "letter"
    config: ClassVar[Mapping[str, object]] = EIGHT_BITS
    epochs: ClassVar[int] = 20

    def build(self) -> nn.Module:
        return perceptron(16, 64, 32, 32, 26)
