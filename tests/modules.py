"""Modules for tests: functions of layers."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from torch import Tensor, nn


class Layers(nn.Module):
    """A function of a module with layers, parameters and buffers, and of inputs.

    Examples:
        >>> Layers(lambda m, x: m.a(x) + x, a=nn.Linear(4, 4))
        Layers(
          (a): Linear(in_features=4, out_features=4, bias=True)
        )
    """

    def __init__(self, function: Callable[..., Any], **layers: nn.Module | Tensor) -> None:
        super().__init__()

        def forward(*inputs: Any) -> Any:
            return function(self, *inputs)

        # Inputs have the names that the function gives them.
        whole = signature(function)
        forward.__signature__ = whole.replace(parameters=[*whole.parameters.values()][1:])
        self.forward = forward
        for name, layer in layers.items():
            if isinstance(layer, Tensor) and not isinstance(layer, nn.Parameter):
                self.register_buffer(name, layer)
            else:
                setattr(self, name, layer)
