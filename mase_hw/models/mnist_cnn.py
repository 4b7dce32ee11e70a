"""A small residual and separable network on handwritten digits, in 8-bit fixed point."""

from __future__ import annotations

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._formats import EIGHT_BITS
from mase_hw.models._residual import ResidualBlock, normalized_conv


class MnistCNN(RegisteredModel):
    """Batch normalisation, a residual block, and a depthwise beside a pointwise convolution."""

    name = "mnist-cnn"
    data = "mnist"
    config = EIGHT_BITS
    parallelism = "auto"
    epochs = 10

    def build(self) -> nn.Module:
        return nn.Sequential(
            normalized_conv(1, 16, 3, stride=2),
            nn.ReLU(),
            ResidualBlock(16, 16),
            nn.MaxPool2d(2),
            normalized_conv(16, 16, 3, groups=16),
            nn.ReLU(),
            normalized_conv(16, 32, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        )
