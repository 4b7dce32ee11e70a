"""Stacks of linear layers with rectifiers between."""

from __future__ import annotations

from itertools import pairwise

from torch import nn


def perceptron(*sizes: int) -> nn.Sequential:
    """Return linear layers between consecutive `sizes`, a rectifier after each but the last."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
