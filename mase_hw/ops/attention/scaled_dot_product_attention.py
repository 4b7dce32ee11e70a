"""Attention, `softmax(q k^T scale + mask) v` (torch.nn.functional.scaled_dot_product_attention).

It is written as a product, a softmax that is scaled and masked, and another product, each with a
number format of its own; a graph without formats keeps it whole. Heads stay where they stream: a
split of the features into heads and the transposition behind it are a change of shape alone, so
that rows of queries, weights and results come token by token, in each all heads. Keys and values
are kept whole, as every token needs them. Heads that share them read the same ones again.

`mase.padded_attention` leaves out the keys, too, for which what streams beside them is zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw._kinds import Record
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops._library import define
from mase_hw.ops._masking import EXCLUDED, Mask, Masked, for_scores


def padded_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    kept: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return attention to the keys that are not zero in `kept`, `[batch, 1, 1, keys]`."""
    mask: Tensor = kept != 0
    if is_causal:
        mask = mask & torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        mask = mask & attn_mask
    elif attn_mask is not None:
        mask = torch.where(mask, attn_mask, torch.finfo(attn_mask.dtype).min)
    return nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=scale, enable_gqa=enable_gqa
    )


define(
    "padded_attention(Tensor query, Tensor key, Tensor value, Tensor kept, Tensor? attn_mask=None,"
    " bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    padded_attention,
)


class ScaledDotProductAttention(Composite, Masked):
    """Attention of queries to keys and values."""

    name = "scaled_dot_product_attention"
    targets = ("aten.scaled_dot_product_attention.default", "mase.padded_attention.default")
    fused = True
    mask_argument = "attn_mask"
    operand_names: Mapping[str, str] = {
        "query": "data_in_0",
        "key": "data_in_1",
        "value": "data_in_2",
        "attn_mask": "mask",
        "kept": "kept",
    }

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the products and the softmax; None where `problems` says why not."""
        if self.refusals(call):
            return None
        query, key, value = (operands[f"data_in_{number}"] for number in range(3))
        heads, shared = (call.operands[f"data_in_{number}"].shape[-3] for number in (0, 1))
        grouped = heads > shared
        if heads < shared:
            query = aten.expand.default(query, [-1, shared, -1, -1])
        if grouped:
            # Heads that share keys come together: [batch, groups, heads of a group, tokens, size].
            query = aten.unflatten.int(query, -3, [shared, heads // shared])
            key, value = (aten.unsqueeze.default(item, -3) for item in (key, value))
        scores = aten.matmul.default(query, aten.transpose.int(key, -2, -1))
        mask, bias = self._mask(call), self._bias(call)
        if grouped:
            mask, bias = (_grouped(item, shared, heads // shared) for item in (mask, bias))
        scale = self._scale(call)
        if bias is not None:
            scores = aten.add.Tensor(aten.mul.Tensor(scores, scale), bias)
            scale = 1.0
        kept = operands.get("kept")
        if kept is not None and grouped:
            kept = aten.unsqueeze.default(kept, 1)
        weights = torch.ops.mase.masked_softmax.default(scores, mask, -1, scale, kept)
        result = aten.matmul.default(weights, value)
        return [aten.flatten.using_ints(result, -4, -3) if grouped else result]

    def masked(self, call: Call, operands: Mapping[str, Tensor], mask: Mask, scale: float) -> Any:
        if call.attributes.get("dropout_p"):
            return None
        constant = mask.seen
        if mask.bias is not None:
            seen = torch.ones((), dtype=torch.bool) if constant is None else constant
            constant = torch.where(seen, mask.bias, torch.finfo(mask.bias.dtype).min)
        inputs = [operands[f"data_in_{number}"] for number in range(3)]
        options = {name: call.attributes.get(name) for name in ("scale", "enable_gqa")}
        causal = call.attributes.get("is_causal", False)
        if mask.kept is None:
            return aten.scaled_dot_product_attention.default(
                *inputs, constant, 0.0, causal, **options
            )
        shape = call.operands["data_in_1"].shape
        kept = for_scores(mask, len(shape), shape[-2])
        return torch.ops.mase.padded_attention.default(*inputs, kept, constant, causal, **options)

    def problems(self, call: Call) -> list[str]:
        return self.refusals(call) or [
            "it is whole, as its parts have no number format: configure one for softmax and matmul"
        ]

    def refusals(self, call: Call) -> list[str]:
        """Return why it is no product, softmax and product, with the fix; empty when it is."""
        problems = []
        ranks = {len(call.operands[f"data_in_{number}"].shape) for number in range(3)}
        if min(ranks) < 3:
            problems.append(
                "queries, keys and values are [batch, tokens, features] or [batch, heads, tokens, "
                f"features], not of {min(ranks)} dimensions: give them a batch in front, such as "
                "unsqueeze(0) makes"
            )
        if call.attributes.get("dropout_p", 0.0):
            problems.append(
                f"it drops {call.attributes['dropout_p']} of its weights: pass dropout_p=0.0 when "
                "the model does not train"
            )
        if "mask" in call.operands and "mask" not in call.constants:
            problems.append(
                "its mask is computed by the model for every query and key: it must be constant, "
                "or leave out the keys of a row that are zero in an input [batch, keys]"
            )
        if any(name in call.constants for name in ("data_in_0", "data_in_1", "data_in_2")):
            problems.append("queries, keys and values must be computed by the model, not constant")
        if not 0 < self._scale(call) < float("inf"):
            problems.append(f"its scale is {self._scale(call)}; it must be more than zero")
        return problems

    @staticmethod
    def _scale(call: Call) -> float:
        given = call.attributes.get("scale")
        return 1 / sqrt(call.operands["data_in_0"].shape[-1]) if given is None else float(given)

    @staticmethod
    def _mask(call: Call) -> Tensor | None:
        """Return which keys each query sees; None for all."""
        queries, keys = (call.operands[f"data_in_{number}"].shape[-2] for number in (0, 1))
        given, kept = call.constants.get("mask"), None
        if call.attributes.get("is_causal"):
            kept = torch.ones(queries, keys, dtype=torch.bool).tril()
        if given is not None:
            boolean = call.operands["mask"].dtype == "bool"
            seen = given.bool() if boolean else given > EXCLUDED
            kept = seen if kept is None else kept & seen
        return None if kept is None or bool(kept.all()) else kept

    @staticmethod
    def _bias(call: Call) -> Tensor | None:
        """Tensor that is added to the scores that are seen; None for nothing."""
        given = call.constants.get("mask")
        if given is None or call.operands["mask"].dtype == "bool":
            return None
        bias = torch.where(given > EXCLUDED, given, 0.0)
        return bias.float() if bool(bias.any()) else None

    def examples(self) -> list[Example]:
        attention = nn.functional.scaled_dot_product_attention
        mask = torch.zeros(3, 3).masked_fill(~torch.ones(3, 3, dtype=torch.bool).tril(), -1e9)
        bias = mask + example_values(3, 3, seed=3).clamp(-1, 1)

        def heads(x: Tensor, count: int) -> Tensor:
            return x.reshape(*x.shape[:2], count, -1).transpose(1, 2)

        def attend(x: Tensor, y: Tensor, z: Tensor, *masks: Tensor, shared: int = 2) -> Tensor:
            key, value = heads(y, shared), heads(z, shared)
            more: Record = {"attn_mask": masks[0]} if masks else {"is_causal": True}
            result = attention(heads(x, 2), key, value, enable_gqa=shared < 2, **more)
            return result.transpose(1, 2).flatten(-2)

        streams = tuple(example_values(3, 3, 4, seed=number) for number in range(3))
        narrow = (streams[0], *(item[..., :2] for item in streams[1:]))
        return [
            (Apply(attend), streams),
            (Apply(attend, bias), streams),
            (Apply(lambda x, y, z: attend(x, y, z, shared=1)), narrow),
        ]


def _grouped(item: Tensor | None, groups: int, heads: int) -> Tensor | None:
    """Return a mask or a bias with the heads of a group apart."""
    if item is None or item.dim() < 3:
        return item
    if item.shape[-3] == 1:
        return item.unsqueeze(-3)
    return item.reshape(*item.shape[:-3], groups, heads, *item.shape[-2:])
