"""LeNet-5 on handwritten digits, in 8-bit fixed point.

Source: Y. LeCun et al., "Gradient-Based Learning Applied to Document Recognition" (1998), with
rectifiers and largest pixels in the place of its own nonlinearities.
"""

from __future__ import annotations

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._formats import EIGHT_BITS


class MnistLeNet(RegisteredModel):
    """Two convolutions of 5 x 5, each with a pool, and three linear layers."""

    name = "mnist-lenet"
    data = "mnist"
    config = EIGHT_BITS
    parallelism = "auto"
    epochs = 8

    def build(self) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        )
