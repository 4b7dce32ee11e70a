"""A residual network of eight layers on images of clothes, in 8-bit fixed point."""

from __future__ import annotations

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._formats import EIGHT_BITS
from mase_hw.models._residual import ResidualBlock, normalized_conv


class FashionResNet8(RegisteredModel):
    """A convolution, three residual blocks of 8, 16 and 32 channels, a mean and a linear layer."""

    name = "fashion-resnet8"
    data = "fashion-mnist"
    config = EIGHT_BITS
    parallelism = "auto"
    epochs = 4
    batch_size = 128

    def build(self) -> nn.Module:
        return nn.Sequential(
            normalized_conv(1, 8, 3),
            nn.ReLU(),
            ResidualBlock(8, 8),
            ResidualBlock(8, 16, stride=2),
            ResidualBlock(16, 32, stride=2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        )
