"""Bags of as many rows of a table as `[batch, rows]` has numbers: their sum, mean or largest.

Torch counts where each bag begins, which fixes the batch.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from torch import Tensor, nn

from mase_hw._kinds import Setting


def rows_of_bags() -> AbstractContextManager[object]:
    """Let bags of one size be looked up row by row."""
    original = nn.functional.embedding_bag

    @functools.wraps(original)
    def embedding_bag(
        input: Tensor, weight: Tensor, offsets: Any = None, **options: Setting
    ) -> Tensor:
        weights, skipped = (options.get(key) for key in ("per_sample_weights", "padding_idx"))
        plain = input.dim() == 2 and offsets is None and skipped is None
        if not plain or options.get("max_norm") is not None:
            return original(input, weight, offsets, **options)
        rows = nn.functional.embedding(input, weight)
        rows = rows if weights is None else rows * weights[..., None]
        mode = options.get("mode", "mean")
        if mode == "max":
            return rows.amax(1)
        return rows.sum(1) if mode == "sum" else rows.mean(1)

    def positional(input: Tensor, weight: Tensor, *args: object, **options: object) -> Tensor:
        named = dict(zip(_ARGUMENTS, args, strict=False))
        return embedding_bag(input, weight, **{**named, **options})

    return patch.object(nn.functional, "embedding_bag", positional)


# Those behind the table, in torch's order.
_ARGUMENTS = (
    "offsets",
    "max_norm",
    "norm_type",
    "scale_grad_by_freq",
    "mode",
    "sparse",
    "per_sample_weights",
    "include_last_offset",
    "padding_idx",
)
