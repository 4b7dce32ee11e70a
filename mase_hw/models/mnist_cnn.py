"""A small residual and separable network on handwritten digits, in 8-bit fixed point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._formats import EIGHT_BITS
from mase_hw.models._residual import ResidualBlock, normalized_conv


class MnistCNN(RegisteredModel):
    """Batch normalisation, a residual block, and a depthwise beside a pointwise convolution."""

    name: ClassVar[str] = "mnist-cnn"
    data: ClassVar[str] = "mnist"
    config: ClassVar[Mapping[str, Any]] = EIGHT_BITS
    parallelism: ClassVar[int | str] = "auto"
    epochs: ClassVar[int] = 8

    def build(self) -> nn.Module:
        """Return the network."""
        return nn.Sequential(
            normalized_conv(1, 8, 3, stride=2),
            nn.ReLU(),
            ResidualBlock(8, 8),
            nn.MaxPool2d(2),
            normalized_conv(8, 8, 3, groups=8),
            nn.ReLU(),
            normalized_conv(8, 32, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        )
