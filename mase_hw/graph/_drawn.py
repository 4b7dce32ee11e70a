"""Pools whose windows lie where samples say, with one set of samples for all rows of a batch.

Torch's own operators take a set for each row, and that of volumes fixes the number of rows.
"""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

import torch
from torch import Tensor

from mase_hw.ops import operators, torch_target

_NAMES = ("fractional_max_pool2d", "fractional_max_pool3d")


def shared_windows() -> ExitStack:
    """Let samples of one row do for all."""
    operators()  # registers our own torch operators
    pool = torch_target("mase.fractional_max_pool.default")

    def pooled(values: Tensor, kernel: object, size: object, samples: Tensor) -> Tensor:
        each = values.dim() - 2
        kernel, size = ([item] * each if isinstance(item, int) else item for item in (kernel, size))
        return pool(values, kernel, size, samples)

    stack = ExitStack()
    for name in _NAMES:
        stack.enter_context(patch.object(torch._C._nn, name, pooled))
    return stack
