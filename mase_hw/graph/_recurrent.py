"""Recurrent layers as the steps that they take: `nn.RNN`, `GRU`, `LSTM` and their cells.

Torch captures a layer as one operator, which starts from zeros of a batch that is given. Here the
products with the inputs are one linear layer for all steps, the loop over time is unrolled, and
states that nobody gives are left out. Every step has the layer's own weights.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

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
