"""Attention, and rotary positions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Function, NodeCall


def _attention(
    node: NodeCall, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None,
    past_key: Tensor | None = None, past_value: Tensor | None = None, lengths: Tensor | None = None,
) -> Any:  # fmt: skip
    if merged := queries.dim() == 3:
        heads, shared = node.get("q_num_heads"), node.get("kv_num_heads")
        if not heads or not shared:
            raise node.refuse("operands of three dimensions need q_num_heads and kv_num_heads")
        queries, keys, values = (
            _heads(item, count)
            for item, count in ((queries, heads), (keys, shared), (values, shared))
        )
    past = 0
    if past_key is not None:
        past, keys = past_key.shape[2], torch.cat([past_key, keys], 2)
        values = torch.cat([node.tensor(past_value, "past_value"), values], 2)
    present = keys, values
    repeats = queries.shape[1] // keys.shape[1]
    if repeats > 1:
        keys, values = (item.repeat_interleave(repeats, 1) for item in (keys, values))
    bias = _bias(node, mask, queries, keys.shape[2], past, lengths)
    scale = node.get("scale") or queries.shape[-1] ** -0.5
    cap, shown = node.get("softcap", 0.0), None
    if cap or node.results > 3:
        scores = queries @ keys.transpose(-2, -1) * scale
        capped = cap * torch.tanh(scores / cap) if cap else scores
        masked = capped if bias is None else capped + bias
        # A row that sees nothing is zero.
        weights = torch._safe_softmax(masked, -1)
        shown = (scores, capped, masked, weights)[node.get("qk_matmul_output_mode", 0)]
        result = weights @ values
    else:
        result = F.scaled_dot_product_attention(queries, keys, values, bias, scale=scale)
    if merged:
        result = result.transpose(1, 2).flatten(2)
    return (result, *present, shown)[: node.results]


def _heads(values: Tensor, count: int) -> Tensor:
    """`[batch, rows, heads * size]` as `[batch, heads, rows, size]`."""
    return values.reshape(*values.shape[:2], count, -1).transpose(1, 2)


def _bias(
    node: NodeCall, mask: Tensor | None, queries: Tensor, count: int, past: int,
    lengths: Tensor | None,
) -> Tensor | None:  # fmt: skip
    """What is added to scores: 0 where an element is seen, or the numbers of a mask."""
    bias, places = mask, torch.arange(count)
    if bias is not None:
        if bias.dtype == torch.bool:
            bias = torch.zeros(bias.shape).masked_fill(~bias, float("-inf"))
        if bias.shape[-1] < count:
            bias = F.pad(bias, [0, count - bias.shape[-1]], value=float("-inf"))
    offset: Any = past
    if lengths is not None:
        ends = lengths.reshape(-1, 1, 1, 1)
        bias = _hidden(places >= ends, bias)
        offset = ends - queries.shape[2]
    rows = torch.arange(queries.shape[2]).unsqueeze(1)
    right = 0 if node.get("is_causal", 0) else node.get("right_window_size", -1)
    left = node.get("left_window_size", -1)
    if right >= 0:
        bias = _hidden(places > rows + offset + right, bias)
    if left >= 0:
        bias = _hidden(places < rows + offset - left, bias)
    return bias


def _hidden(where: Tensor, bias: Tensor | None) -> Tensor:
    hidden = torch.zeros(where.shape).masked_fill(where, float("-inf"))
    return hidden if bias is None else bias + hidden


def _rotary(
    node: NodeCall, x: Tensor, cosines: Tensor, sines: Tensor, positions: Tensor | None = None
) -> Tensor:
    values, tables = x, (cosines, sines)
    if merged := x.dim() == 3:
        values = _heads(x, node.get("num_heads"))
    if positions is not None:
        tables = cosines[positions], sines[positions]
    size = node.get("rotary_embedding_dim", 0) or values.shape[-1]
    turned, kept = values[..., :size], values[..., size:]
    cosine, sine = (item[..., : size // 2].unsqueeze(1) for item in tables)
    pairs = node.get("interleaved", 0)
    first = turned[..., 0::2] if pairs else turned[..., : size // 2]
    second = turned[..., 1::2] if pairs else turned[..., size // 2 :]
    both = cosine * first - sine * second, sine * first + cosine * second
    result = torch.stack(both, -1).flatten(-2) if pairs else torch.cat(both, -1)
    result = torch.cat([result, kept], -1) if kept.shape[-1] else result
    return result.transpose(1, 2).flatten(2) if merged else result


OPERATORS: dict[str, Function] = {"Attention": _attention, "RotaryEmbedding": _rotary}
