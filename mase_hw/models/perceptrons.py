"""Multilayer perceptrons on digits, printed letters and telescope images, in 8-bit fixed point."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

from torch import nn

from mase_hw.models._base import EIGHT_BITS, RegisteredModel


def perceptron(*sizes: int) -> nn.Sequential:
    """Return linear layers between consecutive `sizes`, a rectifier after each but the last."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


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


class LetterMLP(RegisteredModel):
    """Four linear layers with rectifiers between: the shape of the LHC jet tagger."""

    name = "letter-mlp"
    data = "letter"
    config = EIGHT_BITS
    epochs = 20

    def build(self) -> nn.Module:
        return perceptron(16, 64, 32, 32, 26)


class MagicMLP(RegisteredModel):
    """Four linear layers with rectifiers between: the shape of the LHC jet tagger."""

    name = "magic-mlp"
    data = "magic"
    config = EIGHT_BITS
    epochs = 20

    def build(self) -> nn.Module:
        return perceptron(10, 64, 32, 32, 2)
