"""SFC, a binary perceptron 784-256-256-256-10 on handwritten digits.

Weights and activations are -1 and 1, pixels are cut at one half, and each layer is followed by
batch normalisation. The module computes exactly that with torch's own operators; the hardware has
signs for operands and whole sums, and the normalisation stands behind them.

Source: the topology of Umuroglu et al., "FINN: A Framework for Fast, Scalable Binarized Neural
Network Inference" (2017), arXiv:1612.07119; trained as Courbariaux et al., "Binarized Neural
Networks" (2016), arXiv:1602.02830.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mase_hw.models._base import RegisteredModel

HIDDEN = 256


def signs(values: Tensor, *, training: bool) -> Tensor:
    """Return -1 below zero, else 1; in training the gradient passes from -1 to 1."""
    hard = torch.where(values >= 0, 1.0, -1.0)
    if not training:
        return hard
    soft = values.clamp(-1, 1)
    return soft + (hard - soft).detach()


class Signs(nn.Module):
    """The signs of what is above or below a border."""

    def __init__(self, border: float = 0.0) -> None:
        super().__init__()
        self.border = border

    def forward(self, values: Tensor) -> Tensor:
        """Return -1 and 1."""
        moved = values - self.border if self.border else values
        return signs(moved, training=self.training)


class BinaryLinear(nn.Linear):
    """A linear layer of the signs of its weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, values: Tensor) -> Tensor:
        """Return the sums."""
        return nn.functional.linear(values, signs(self.weight, training=self.training))


class MnistSFC(RegisteredModel):
    """Four layers of signs."""

    name: ClassVar[str] = "mnist-sfc"
    data: ClassVar[str] = "mnist"
    config: ClassVar[Mapping[str, Any]] = {
        "by": "type",
        "default": {"config": {"name": "fixed", "data_in_width": 24}},
        "linear": {"config": {"name": "binary"}},
        "sub": {"config": {"name": "fixed", "data_in_width": 10, "data_in_frac_width": 8}},
        # Sums of 784 signs are whole numbers of 11 bits.
        "batch_norm": {
            "config": {
                "name": "fixed",
                "data_in_width": 11,
                "data_in_frac_width": 0,
                "weight_width": 24,
                "bias_width": 24,
                "data_out_width": 24,
            }
        },
        "where": {"config": {"name": "fixed", "data_in_width": 2, "data_in_frac_width": 0}},
    }
    parallelism: ClassVar[int | str] = 8
    epochs: ClassVar[int] = 40

    def build(self, hidden: int = HIDDEN) -> nn.Module:
        """Return the network."""
        layers: list[nn.Module] = [nn.Flatten(), Signs(0.5)]
        inputs = 28 * 28
        for _ in range(3):
            layers += [BinaryLinear(inputs, hidden), nn.BatchNorm1d(hidden), Signs()]
            inputs = hidden
        return nn.Sequential(*layers, BinaryLinear(inputs, 10), nn.BatchNorm1d(10))
