"""`nn.MultiheadAttention` with the batch first, as the rest of a model has it.

Torch's own transposes tokens before the batch, projects, and comes back: the same function, in an
order in which inferences do not follow each other.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn


@contextlib.contextmanager
def batch_first_attention() -> Iterator[None]:
    """Let modules compute attention batch first, where they take it so."""
    original = nn.MultiheadAttention.forward
    attention = nn.functional.scaled_dot_product_attention

    @functools.wraps(original)
    def forward(
        self: nn.MultiheadAttention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        masks = (key_padding_mask, attn_mask)
        if not _is_plain(self, query, masks):
            given: Any = (
                key_padding_mask,
                need_weights,
                attn_mask,
                average_attn_weights,
                is_causal,
            )
            return original(self, query, key, value, *given)
        query, key, value = (
            item.reshape(*item.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)
            for item in _projected(self, query, key, value)
        )
        weights = None
        if need_weights:
            result, weights = _weighted(query, key, value, attn_mask)
            weights = weights.mean(dim=1) if average_attn_weights else weights
        else:
            mask = attn_mask
            if mask is not None and mask.dtype is torch.bool:
                mask = ~mask
            result = attention(query, key, value, attn_mask=mask)
        return self.out_proj(result.transpose(1, 2).flatten(-2)), weights

    nn.MultiheadAttention.forward = forward  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.MultiheadAttention.forward = original  # type: ignore[method-assign]


def _is_plain(
    module: nn.MultiheadAttention, query: Tensor, masks: tuple[Tensor | None, Tensor | None]
) -> bool:
    """Return whether batches of queries come first and attend to keys as they come."""
    padding, mask = masks
    return (
        module.batch_first
        and query.dim() == 3
        and not module.training
        and module.bias_k is None
        and not module.add_zero_attn
        and padding is None
        and (mask is None or mask.dim() == 2)
    )


def _projected(
    module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor
) -> list[Tensor]:
    """Return queries, keys and values."""
    weight, bias = module.in_proj_weight, module.in_proj_bias
    linear = nn.functional.linear
    if weight is None:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    elif query is key is value:
        # One layer, whose weights stay one parameter.
        return list(linear(query, weight, bias).chunk(3, -1))
    else:
        weights = weight.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    streams = (query, key, value)
    return [linear(*item) for item in zip(streams, weights, biases, strict=True)]


def _weighted(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the results of attention, and its weights."""
    scores = (query * (1 / sqrt(query.shape[-1]))) @ key.transpose(-2, -1)
    if mask is not None and mask.dtype is torch.bool:
        scores = scores.masked_fill(mask, float("-inf"))
    elif mask is not None:
        scores = scores + mask
    weights = torch.softmax(scores, -1)
    return weights @ value, weights
