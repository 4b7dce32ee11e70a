"""Bags of as many rows of a table as `[batch, rows]` has numbers: their sum, mean or largest.

Torch counts where each bag begins, which fixes the batch.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager
from unittest.mock import patch

from torch import Tensor, nn

from mase_hw._kinds import Argument


def rows_of_bags() -> AbstractContextManager[object]:
    """Let bags of one size be looked up row by row."""
    original = nn.functional.embedding_bag
    signature = inspect.signature(original)

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

    return patch.object(nn.functional, "embedding_bag", embedding_bag)
