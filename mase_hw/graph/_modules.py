"""Modules and calls of torch that fix the batch, written so that rows stay independent.

`nn.MultiheadAttention`, and that of Brevitas, with the batch first as in the rest of a model.

Torch's own transposes tokens before the batch, projects, and comes back: the same function, in an
order in which inferences do not follow each other.

Recurrent layers as the steps that they take: `nn.RNN`, `GRU`, `LSTM` and their cells.

Torch captures a layer as one operator, which starts from zeros of a batch that is given. Here the
products with the inputs are one linear layer for all steps, the loop over time is unrolled, and
states that nobody gives are left out. Every step has the layer's own weights.

Calls of torch that fix the batch, computed row by row.

Bags of as many rows of a table as `[batch, rows]` has numbers, of which torch counts where each
begins; and pools whose windows lie where samples say, with one set of them for all rows.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.modules import transformer

from mase_hw._kinds import Argument
from mase_hw.ops import operators, torch_target

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
            patches.enter_context(patch.object(kind, "forward", _batch_first_forward(kind.forward)))
        patches.enter_context(patch.object(transformer, "_detect_is_causal_mask", is_causal_mask))
        yield


def _batch_first_forward(original: Callable[..., Any]) -> Callable[..., Any]:
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


State = tuple[Tensor | None, ...]
Results = tuple[Tensor, ...]
Step = Callable[[Tensor, State, Tensor | None, Tensor | None], Results]
_linear = nn.functional.linear


def unrolled_recurrence() -> contextlib.ExitStack:
    """Let recurrent layers and cells take their steps one by one."""
    stack = contextlib.ExitStack()
    for kind in (nn.RNN, nn.LSTM, nn.GRU, nn.RNNCell, nn.LSTMCell, nn.GRUCell):
        unroll = _layer if issubclass(kind, nn.RNNBase) else _cell
        stack.enter_context(patch.object(kind, "forward", _instead(kind.forward, unroll)))
    return stack


def _instead(original: Any, unroll: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def forward(self: Any, input: Any, hx: Any = None) -> object:
        batched = 3 if isinstance(self, nn.RNNBase) else 2
        if not isinstance(input, Tensor) or input.dim() not in (batched - 1, batched):
            return original(self, input, hx)
        return unroll(self, input, hx)

    return forward


def _layer(module: nn.RNNBase, values: Tensor, initial: object) -> object:
    alone = values.dim() == 2
    if alone:
        values = values.unsqueeze(0)
    elif not module.batch_first:
        values = values.transpose(0, 1)
    states = () if initial is None else initial if isinstance(initial, tuple) else (initial,)
    states = tuple(state.unsqueeze(1) for state in states) if alone else states
    directions = 2 if module.bidirectional else 1
    last: list[tuple[Tensor, ...]] = []
    for layer in range(module.num_layers):
        results = []
        for direction in range(directions):
            number = layer * directions + direction
            start = tuple(state.select(0, number) for state in states)
            outputs, end = _run(module, number, values, start, backwards=direction == 1)
            results.append(outputs)
            last.append(end)
        values = results[0] if directions == 1 else torch.cat(results, -1)
        if module.dropout and layer + 1 < module.num_layers:
            values = nn.functional.dropout(values, module.dropout, module.training)
    join = torch.cat if alone else torch.stack
    ends = tuple(join(states, 0) for states in zip(*last, strict=True))
    if alone:
        values = values.squeeze(0)
    elif not module.batch_first:
        values = values.transpose(0, 1)
    return values, (ends if isinstance(module, nn.LSTM) else ends[0])


def _run(
    module: nn.RNNBase, number: int, values: Tensor, start: State, *, backwards: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the results `[batch, time, ...]` of one layer in one direction, and its last state."""
    weights = module.all_weights[number]
    inner, outer, *rest = weights
    biases = rest[:2] if module.bias else [None, None]
    projection = weights[-1] if module.proj_size else None
    gates = _linear(values, inner, biases[0])
    step = _STEPS[module.mode]
    state: Any = start or (None, None)[: 2 if module.mode == "LSTM" else 1]
    count = values.shape[1]
    results: list[Tensor] = []
    for time in reversed(range(count)) if backwards else range(count):
        carried = None if state[0] is None else _linear(state[0], outer, biases[1])
        state = step(gates.select(1, time), state, carried, biases[1])
        if projection is not None:
            state = (_linear(state[0], projection), *state[1:])
        results.append(state[0])
    return torch.stack(results[::-1] if backwards else results, 1), state


def _cell(module: nn.RNNCellBase, values: Tensor, initial: object) -> Any:
    mode = "LSTM" if isinstance(module, nn.LSTMCell) else "GRU"
    if isinstance(module, nn.RNNCell):
        mode = f"RNN_{module.nonlinearity.upper()}"
    state: Any = initial if isinstance(initial, tuple) else (initial,)
    state = (None, None) if initial is None and mode == "LSTM" else state
    gates = _linear(values, module.weight_ih, module.bias_ih)
    carried = None if state[0] is None else _linear(state[0], module.weight_hh, module.bias_hh)
    state = _STEPS[mode](gates, state, carried, module.bias_hh)
    return state if mode == "LSTM" else state[0]


def _sum(gates: Tensor, carried: Tensor | None, bias: Tensor | None) -> Tensor:
    if carried is not None:
        return gates + carried
    return gates if bias is None else gates + bias


def _plain(function: Callable[[Tensor], Tensor]) -> Step:
    return lambda gates, state, carried, bias: (function(_sum(gates, carried, bias)),)


def _lstm(gates: Tensor, state: State, carried: Tensor | None, bias: Tensor | None) -> Results:
    first, keep, new, out = _sum(gates, carried, bias).chunk(4, -1)
    cell = torch.sigmoid(first) * torch.tanh(new)
    if state[1] is not None:
        cell = torch.sigmoid(keep) * state[1] + cell
    return torch.sigmoid(out) * torch.tanh(cell), cell


def _gru(gates: Tensor, state: State, carried: Tensor | None, bias: Tensor | None) -> Results:
    parts = gates.chunk(3, -1)
    inside = bias if carried is None else carried
    inner: Sequence[Tensor | None] = (None,) * 3 if inside is None else inside.chunk(3, -1)
    sums = [a if b is None else a + b for a, b in zip(parts[:2], inner[:2], strict=True)]
    reset, update = (torch.sigmoid(item) for item in sums)
    new = torch.tanh(parts[2] if inner[2] is None else parts[2] + reset * inner[2])
    if state[0] is None:
        return (new - update * new,)
    return ((state[0] - new) * update + new,)


_STEPS: dict[str, Step] = {
    "RNN_TANH": _plain(torch.tanh),
    "RNN_RELU": _plain(torch.relu),
    "LSTM": _lstm,
    "GRU": _gru,
}


def row_by_row() -> contextlib.ExitStack:
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

    stack = contextlib.ExitStack()
    stack.enter_context(patch.object(nn.functional, "embedding_bag", embedding_bag))
    for name in ("fractional_max_pool2d", "fractional_max_pool3d"):
        stack.enter_context(patch.object(torch._C._nn, name, pooled))
    return stack
