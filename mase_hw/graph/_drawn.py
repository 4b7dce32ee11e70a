"""Pools whose windows lie where samples say, with one set of samples for all rows of a batch.

Torch's own operators take a set for each row, and that of volumes fixes the number of rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from mase_hw.ops import operators, torch_target

_NAMES = ("fractional_max_pool2d", "fractional_max_pool3d")


@contextlib.contextmanager
def shared_windows() -> Iterator[None]:
    """Let samples of one row do for all."""
    operators()  # registers our own torch operators
    functions: object = torch._C._nn
    originals = {name: getattr(functions, name) for name in _NAMES}
    pool = torch_target("mase.fractional_max_pool.default")

    def pooled(values: Tensor, kernel: object, size: object, samples: Tensor) -> Tensor:
        each = values.dim() - 2
        kernel, size = ([item] * each if isinstance(item, int) else item for item in (kernel, size))
        return pool(values, kernel, size, samples)

    for name in _NAMES:
        setattr(functions, name, pooled)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(functions, name, original)
