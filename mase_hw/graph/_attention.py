"""`nn.MultiheadAttention`, also of Brevitas, with the batch first, as the rest of a model has it.

Torch's own transposes tokens before the batch, projects, and comes back: the same function, in an
order in which inferences do not follow each other.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from math import sqrt
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.modules import transformer

# What a module of Brevitas has, which rounds between its products.
_ROUNDS = "q_scaled_quant"


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    """Keep torch from a faster path through its transformer layers, which is none of operators.

    It gives zeros for the tokens of a padding, where the layers as written compute numbers.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextlib.contextmanager
def batch_first_attention() -> Iterator[None]:
    """Let modules compute attention batch first, where they take it so."""

    # Whether a mask is the causal one, which torch looks up in its values, need not be known.
    def is_causal_mask(mask: object, is_causal: object = None, size: object = None) -> bool:
        return bool(is_causal)

    kinds: list[Any] = [nn.MultiheadAttention]
    if "brevitas.nn" in sys.modules:
        kinds.append(sys.modules["brevitas.nn"].QuantMultiheadAttention)
    with contextlib.ExitStack() as patches:
        for kind in kinds:
            patches.enter_context(patch.object(kind, "forward", _forward(kind.forward)))
        patches.enter_context(patch.object(transformer, "_detect_is_causal_mask", is_causal_mask))
        yield


def _forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the batch-first forward of a module of attention."""
    signature = inspect.signature(original)
    attention = nn.functional.scaled_dot_product_attention

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = signature.bind(self, *args, **kwargs)
        call.apply_defaults()
        options = call.arguments
        query, key, value = (options[name] for name in ("query", "key", "value"))
        if query.dim() != 3 or self.training:
            return original(self, *args, **kwargs)
        streams = _longer(self, _projected(self, *_batch_first(self, query, key, value)))
        query, key, value = (
            item.reshape(*item.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)
            for item in streams
        )
        seen = _mask(self, options["key_padding_mask"], options["attn_mask"])
        weights = None
        if options["need_weights"] or hasattr(self, _ROUNDS):
            result, weights = _weighted(self, query, key, value, seen)
            weights = weights.mean(dim=1) if options["average_attn_weights"] else weights
            weights = weights if options["need_weights"] else None
        else:
            result = attention(query, key, value, attn_mask=seen)
        result = self.out_proj(result.transpose(1, 2).flatten(-2))
        return result if self.batch_first else result.transpose(0, 1), weights

    return forward


def _batch_first(module: nn.MultiheadAttention, *streams: Tensor) -> list[Tensor]:
    if module.batch_first:
        return list(streams)
    moved = {id(item): item.transpose(0, 1) for item in streams}
    return [moved[id(item)] for item in streams]


def _longer(module: nn.MultiheadAttention, streams: list[Tensor]) -> list[Tensor]:
    """Return queries, and keys and values with those that the module adds, the same for all."""
    query, *others = streams
    added: list[list[Tensor]] = [[], []]
    if module.bias_k is not None and module.bias_v is not None:
        added = [[module.bias_k], [module.bias_v]]
    if module.add_zero_attn:
        added = [[*rows, query.new_zeros(1, 1, module.embed_dim)] for rows in added]
    for place, rows in enumerate(added):
        if rows:
            more = torch.cat(rows, 1).expand(query.shape[0], -1, -1)
            others[place] = torch.cat([others[place], more], 1)
    return [query, *others]


def _mask(
    module: nn.MultiheadAttention, padding: Tensor | None, mask: Tensor | None
) -> Tensor | None:
    """Return both masks as one, `[batch, heads, queries, keys]` or what broadcasts to it.

    It is true where a key is seen, or what is added to the scores.
    """
    more = (module.bias_k is not None) + bool(module.add_zero_attn)
    masks = []
    if mask is not None:
        is_own = mask.dim() == 3
        heads = mask.reshape(-1, module.num_heads, *mask.shape[1:]) if is_own else mask
        masks.append(_seen(heads, more))
    if padding is not None:
        masks.append(_seen(padding, more)[:, None, None, :])
    if all(item.dtype is torch.bool for item in masks):
        return masks[0] & masks[1] if len(masks) == 2 else next(iter(masks), None)
    terms = [_term(item, module.out_proj.weight.dtype) for item in masks]
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


def _seen(mask: Tensor, more: int) -> Tensor:
    """Return a mask that is true where a key is seen, or what is added; further keys are seen."""
    is_bool = mask.dtype is torch.bool
    seen = ~mask if is_bool else mask
    if not more:
        return seen
    keys = torch.full((*[1] * (mask.dim() - 1), more), is_bool, dtype=mask.dtype)
    return torch.cat([seen, keys.expand(*mask.shape[:-1], -1)], -1)


def _term(seen: Tensor, dtype: torch.dtype) -> Tensor:
    if seen.dtype is not torch.bool:
        return seen
    return torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, float("-inf"))


def _projected(module: Any, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    if hasattr(module, _ROUNDS):
        packed: Any = module.in_proj
        if packed is not None:
            return list(packed(query).chunk(3, -1))
        return [module.q_proj(query), module.k_proj(key), module.v_proj(value)]
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
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return what weights of values give, and the weights; modules of Brevitas round on the way."""

    def rounded(name: str, values: Tensor) -> Tensor:
        return getattr(module, f"{name}_quant", nn.Identity())(values)  # type: ignore[no-any-return]

    query = rounded("q_scaled", query * (1 / sqrt(query.shape[-1])))
    scores = query @ rounded("k_transposed", key.transpose(-2, -1))
    if mask is not None and mask.dtype is torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        scores = scores + mask
    weights = rounded("attn_output_weights", torch.softmax(rounded("softmax_input", scores), -1))
    return weights @ rounded("v", value), weights
