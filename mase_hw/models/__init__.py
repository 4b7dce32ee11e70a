"""Registered models, found by walking this folder and the entry points `mase_hw.models`."""

from __future__ import annotations

from functools import cache

from mase_hw.models._base import RegisteredModel, Trained
from mase_hw.models.convolutional import ResidualBlock
from mase_hw.models.perceptrons import perceptron
from mase_hw.registry import discover

__all__ = ["RegisteredModel", "ResidualBlock", "Trained", "models", "perceptron"]


@cache
def models() -> dict[str, RegisteredModel]:
    """Return one instance of every model by name, in the order of names."""
    units = discover(__name__, RegisteredModel, "mase_hw.models")  # type: ignore[type-abstract]
    return {cls.name: cls() for cls in sorted(units, key=lambda cls: cls.name)}
