"""Calls of torch that fix the batch, computed row by row.

Bags of as many rows of a table as `[batch, rows]` has numbers, of which torch counts where each
begins; and pools whose windows lie where samples say, with one set of them for all rows.
"""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from unittest.mock import patch

import torch
from torch import Tensor, nn

from mase_hw._kinds import Argument
from mase_hw.ops import operators, torch_target


def row_by_row() -> ExitStack:
    """Let bags of one size be looked up, and samples of windows hold, for each row."""
    operators()  # registers our own torch operators
    original = nn.functional.embedding_bag
    signature = inspect.signature(original)
    pool = torch_target("mase.fractional_max_pool.default")

    def embedding_bag(*args: Argument, **kwargs: Argument) -> Tensor:
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        options = call.arguments
        others = (options[name] for name in ("offsets", "max_norm", "padding_idx"))
        if options["input"].dim() != 2 or any(item is not None for item in others):
            return original(*args, **kwargs)
        rows = nn.functional.embedding(options["input"], options["weight"])
        weights, mode = options["per_sample_weights"], options["mode"]
        rows = rows if weights is None else rows * weights[..., None]
        if mode == "max":
            return rows.amax(1)
        return rows.sum(1) if mode == "sum" else rows.mean(1)

    def pooled(values: Tensor, kernel: object, size: object, samples: Tensor) -> Tensor:
        each = values.dim() - 2
        kernel, size = ([item] * each if isinstance(item, int) else item for item in (kernel, size))
        return pool(values, kernel, size, samples)

    stack = ExitStack()
    stack.enter_context(patch.object(nn.functional, "embedding_bag", embedding_bag))
    for name in ("fractional_max_pool2d", "fractional_max_pool3d"):
        stack.enter_context(patch.object(torch._C._nn, name, pooled))
    return stack
