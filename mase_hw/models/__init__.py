"""Registered models, found by walking this folder and the entry points `mase_hw.models`."""

from __future__ import annotations

from functools import cache

from mase_hw.models._base import RegisteredModel, Trained
from mase_hw.models._mlp import perceptron
from mase_hw.models._residual import ResidualBlock
from mase_hw.registry import discover

__all__ = ["RegisteredModel", "ResidualBlock", "Trained", "models", "perceptron"]


@cache
def models() -> dict[str, RegisteredModel]:
    """Return one instance of every model by name."""
    return {cls.name: cls() for cls in discover(__name__, RegisteredModel, "mase_hw.models")}  # type: ignore[type-abstract]
