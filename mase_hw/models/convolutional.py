"""Convolutional networks on images and motion signals, in 8-bit fixed point.

Residual blocks.

Source: K. He et al., "Deep Residual Learning for Image Recognition" (2016), arXiv:1512.03385.

LeNet-5 on handwritten digits, in 8-bit fixed point.

Source: Y. LeCun et al., "Gradient-Based Learning Applied to Document Recognition" (1998), with
rectifiers and largest pixels in the place of its own nonlinearities.
"""

from __future__ import annotations

from torch import Tensor, nn

from mase_hw.models._base import EIGHT_BITS, RegisteredModel


def normalized_conv(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Return a convolution that keeps the size, without bias, and batch normalisation."""
    conv = nn.Conv2d(
        inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False
    )
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class ResidualBlock(nn.Module):
    """`relu(x + f(x))` with two convolutions of 3 x 3 in `f`.

    Where the result is wider or smaller than `x`, a pointwise convolution of `x` is added instead.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.first = normalized_conv(inputs, outputs, 3, stride=stride)
        self.second = normalized_conv(outputs, outputs, 3)
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs or stride != 1:
            self.shortcut = normalized_conv(inputs, outputs, 1, stride=stride)
        self.relu = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        """Return the block's result."""
        changed = self.second(self.relu(self.first(images)))
        result: Tensor = self.relu(changed + self.shortcut(images))
        return result


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


class HarCNN1d(RegisteredModel):
    """Three convolutions over time with pools between, a mean over time, and a linear layer."""

    name = "har-cnn1d"
    data = "human-activity"
    config = EIGHT_BITS
    parallelism = "auto"
    epochs = 10

    def build(self) -> nn.Module:
        return nn.Sequential(
            nn.Conv1d(6, 16, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(16, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(32, 6),
        )
