"""Residual blocks.

Source: K. He et al., "Deep Residual Learning for Image Recognition" (2016), arXiv:1512.03385.
"""

from __future__ import annotations

from torch import Tensor, nn


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
