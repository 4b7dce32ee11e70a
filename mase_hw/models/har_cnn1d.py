"""A convolutional network over a phone's motion signals, in 8-bit fixed point."""

from __future__ import annotations

from torch import nn

from mase_hw.models._base import RegisteredModel
from mase_hw.models._formats import EIGHT_BITS


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
