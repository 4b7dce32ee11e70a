"""Modules for tests: functions of layers."""

from __future__ import annotations

from collections.abc import Callable
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
        self.function = function
        for name, layer in layers.items():
            if isinstance(layer, Tensor) and not isinstance(layer, nn.Parameter):
                self.register_buffer(name, layer)
            else:
                setattr(self, name, layer)

    def forward(self, *inputs: Any) -> Any:
        """Call the function."""
        return self.function(self, *inputs)
