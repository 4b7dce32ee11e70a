"""Adapters of peft: while a model is captured, they are part of the weights beside which they lie.

Hardware has one layer then. Adapters that cannot be merged are captured as what they compute.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from torch import nn

_REFUSALS = (NotImplementedError, ValueError, RuntimeError, TypeError, AttributeError)


@contextlib.contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """Merge active adapters into copies of their layers' weights, which train where they do."""
    kept: list[tuple[Any, dict[str, nn.Parameter | None]]] = []
    if "peft" in sys.modules:
        from peft.tuners.tuners_utils import BaseTunerLayer

        for layer in model.modules():
            if isinstance(layer, BaseTunerLayer) and not (layer.merged or layer.disable_adapters):
                kept.append((layer, dict(layer.get_base_layer()._parameters)))
    try:
        for layer, parameters in kept:
            _merge(layer, parameters)
        yield
    finally:
        for layer, parameters in kept:
            _restore(layer, parameters)


def _merge(layer: Any, parameters: dict[str, nn.Parameter | None]) -> None:
    base = layer.get_base_layer()
    trains = any(item.requires_grad for item in layer.parameters())
    for name, value in parameters.items():
        if value is not None:
            # Others may read it too, as an embedding does.
            base._parameters[name] = nn.Parameter(value.detach().clone(), requires_grad=trains)
    try:
        layer.merge(safe_merge=True)
    except _REFUSALS:
        _restore(layer, parameters)


def _restore(layer: Any, parameters: dict[str, nn.Parameter | None]) -> None:
    layer.get_base_layer()._parameters.update(parameters)
    layer.merged_adapters = []
