"""Torch operators of our own, for what ATen has no operator for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("mase", "FRAGMENT")


def define(name: str, function: Callable[[Tensor], Tensor]) -> None:
    """Register `torch.ops.mase.<name>`: one tensor in, `function` of it out, differentiable."""
    _LIBRARY.define(f"{name}(Tensor self) -> Tensor")
    _LIBRARY.impl(name, function, "CompositeImplicitAutograd")


def define_identity(name: str) -> None:
    """Register `torch.ops.mase.<name>`, which returns a copy: what passes insert."""
    define(name, torch.clone)
