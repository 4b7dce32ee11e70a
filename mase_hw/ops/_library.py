"""Torch operators of our own that passes insert; as functions of values they are the identity."""

from __future__ import annotations

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("mase", "FRAGMENT")


def define_identity(name: str) -> None:
    """Register `torch.ops.mase.<name>`, one tensor in, a copy out."""
    _LIBRARY.define(f"{name}(Tensor self) -> Tensor")
    _LIBRARY.impl(name, _copy, "CompositeImplicitAutograd")


def _copy(values: Tensor) -> Tensor:
    return values.clone()
