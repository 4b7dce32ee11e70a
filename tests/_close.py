"""Equality of float32 results up to the order of sums."""

from __future__ import annotations

import torch
from torch import Tensor

# Of a tensor's largest element. Which kernels torch takes, and so the order of their sums, depends
# on the processor; deep networks of unit-sized weights differ by up to 1e-5 then. A wrong constant,
# mask or row differs by far more than the next power of ten.
ORDER = 3e-5


def assert_same(found: Tensor, expected: Tensor) -> None:
    """Raise unless two tensors are equal but for the order of sums; whole numbers are exact."""
    assert found.dtype == expected.dtype
    largest = 0.0
    if expected.is_floating_point():
        largest = max(expected[expected.isfinite()].abs().flatten().tolist(), default=0.0)
    torch.testing.assert_close(found, expected, rtol=0, atol=ORDER * largest)
