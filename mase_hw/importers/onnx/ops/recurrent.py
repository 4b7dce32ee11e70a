"""Recurrent layers: one step after another, each direction for itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Function, NodeCall

# Activations by their names in lower case, with the alpha and beta that a file may give.
_ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "affine": lambda x, alpha=1.0, beta=0.0: alpha * x + beta,
    "elu": lambda x, alpha=1.0, beta=0: F.elu(x, alpha),
    "hardsigmoid": lambda x, alpha=0.2, beta=0.5: torch.clamp(alpha * x + beta, 0, 1),
    "leakyrelu": lambda x, alpha=0.01, beta=0: F.leaky_relu(x, alpha),
    "relu": lambda x, alpha=0, beta=0: torch.relu(x),
    "scaledtanh": lambda x, alpha=1.0, beta=1.0: alpha * torch.tanh(beta * x),
    "sigmoid": lambda x, alpha=0, beta=0: torch.sigmoid(x),
    "softplus": lambda x, alpha=0, beta=0: F.softplus(x),
    "softsign": lambda x, alpha=0, beta=0: F.softsign(x),
    "tanh": lambda x, alpha=0, beta=0: torch.tanh(x),
    "thresholdedrelu": lambda x, alpha=1.0, beta=0: torch.where(x > alpha, x, x.new_zeros(())),
}
_WAYS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
States = tuple[Tensor, ...]


@dataclass(frozen=True)
class _Direction:
    """Weights `[gates * hidden, ...]`, peepholes `[3 * hidden]` of an LSTM, and what follows."""

    gates: Tensor
    states: Tensor
    gate_bias: Tensor
    state_bias: Tensor
    peepholes: Tensor | None
    functions: tuple[Callable[..., Tensor], ...]
    clip: float | None

    def sums(self, x: Tensor, hidden: Tensor) -> Tensor:
        both = (x, self.gates, self.gate_bias), (hidden, self.states, self.state_bias)
        return F.linear(*both[0]) + F.linear(*both[1])

    def activated(self, number: int, values: Tensor) -> Tensor:
        clipped = values if self.clip is None else values.clamp(-self.clip, self.clip)
        return self.functions[number](clipped)


def _rnn_step(node: NodeCall, own: _Direction, x: Tensor, state: States) -> States:
    return (own.activated(0, own.sums(x, state[0])),)


def _gru_step(node: NodeCall, own: _Direction, x: Tensor, state: States) -> States:
    (hidden,) = state
    both = 2 * hidden.shape[-1]
    enters = F.linear(x, own.gates, own.gate_bias)
    stays = F.linear(hidden, own.states[:both], own.state_bias[:both])
    update, reset = own.activated(0, enters[..., :both] + stays).chunk(2, -1)
    last, bias = own.states[both:], own.state_bias[both:]
    if node.get("linear_before_reset", 0):
        inner = reset * F.linear(hidden, last, bias)
    else:
        inner = F.linear(reset * hidden, last, bias)
    return ((1 - update) * own.activated(1, enters[..., both:] + inner) + update * hidden,)


def _lstm_step(node: NodeCall, own: _Direction, x: Tensor, state: States) -> States:
    hidden, cell = state
    i, o, f, c = own.sums(x, hidden).chunk(4, -1)
    peeps = None if own.peepholes is None else own.peepholes.chunk(3)
    if peeps is not None:
        i, f = i + peeps[0] * cell, f + peeps[2] * cell
    enter = own.activated(0, i)
    forget = 1 - enter if node.get("input_forget", 0) else own.activated(0, f)
    cell = forget * cell + enter * own.activated(1, c)
    if peeps is not None:
        o = o + peeps[1] * cell
    return own.activated(0, o) * own.functions[2](cell), cell


def _layer(
    step: Callable[[NodeCall, _Direction, Tensor, States], States],
    gates: int, functions: tuple[str, ...], states: int,
) -> Function:  # fmt: skip
    """A recurrent operator.

    Args:
        step: from the input of a step and the state to the next state.
        gates: number of gates, the new state's among them.
        functions: default activations of a direction.
        states: 2 where a cell stands beside the hidden state.
    """

    def compute(
        node: NodeCall, values: Tensor, first: Tensor, second: Tensor, b: Tensor | None = None,
        lengths: Tensor | None = None, *initial: Tensor | None,
    ) -> Any:  # fmt: skip
        batch_first = bool(node.get("layout", 0))
        if not batch_first:
            # In whatever order a file has them, inferences follow each other here.
            values = values.transpose(0, 1)
        size, direction = second.shape[-1], str(node.get("direction", "forward"))
        if direction not in _WAYS:
            raise node.refuse(f"its direction is {direction!r}; allowed: {', '.join(_WAYS)}")
        given = (*initial, *[None] * (states + 1))[: states + 1]
        results, ends = [], []
        for place, backward in enumerate(_WAYS[direction]):
            bias = values.new_zeros(2 * gates * size) if b is None else b[place]
            peeps = given[states]
            own = _Direction(
                first[place], second[place], bias[: gates * size], bias[gates * size :],
                None if peeps is None else peeps[place],
                _activations(node, functions, place), node.get("clip"),
            )  # fmt: skip
            start = tuple(
                values.new_zeros((1, size)).expand(values.shape[0], size)
                if state is None
                else state.select(1 if batch_first else 0, place)
                for state in given[:states]
            )
            outputs, end = _run(node, step, own, values, start, lengths, backward=backward)
            results.append(outputs)
            ends.append(end)
        last = [torch.stack(items, 1) for items in zip(*ends, strict=True)]
        if batch_first:
            return torch.stack(results, 2), *last
        last = [item.transpose(0, 1) for item in last]
        if len(results) == 1:
            return torch.stack([results[0].transpose(0, 1)], 1), *last
        return torch.stack(results, 2).permute(1, 2, 0, 3), *last

    return compute


def _run(
    node: NodeCall, step: Callable[[NodeCall, _Direction, Tensor, States], States],
    own: _Direction, values: Tensor, state: States, lengths: Tensor | None, *, backward: bool,
) -> tuple[Tensor, States]:  # fmt: skip
    count = values.shape[1]
    if not isinstance(count, int):
        raise node.refuse("its sequence has a length that is not known; export a fixed one")
    ends = None if lengths is None else lengths.reshape(-1, 1)
    outputs = [state[0]] * count
    for place in reversed(range(count)) if backward else range(count):
        new = step(node, own, values[:, place], state)
        outputs[place] = new[0]
        if ends is not None:
            # A sequence that has ended keeps its state, and gives zeros.
            lives = ends > place
            outputs[place] = torch.where(lives, new[0], torch.zeros_like(new[0]))
            new = tuple(torch.where(lives, *pair) for pair in zip(new, state, strict=True))
        state = new
    return torch.stack(outputs, 1), state


def _activations(
    node: NodeCall, defaults: tuple[str, ...], place: int
) -> tuple[Callable[..., Tensor], ...]:
    names = [str(name) for name in node.get("activations") or defaults * (place + 1)]
    functions = []
    for number in range(place * len(defaults), (place + 1) * len(defaults)):
        if names[number].lower() not in _ACTIVATIONS:
            allowed = ", ".join(sorted(_ACTIVATIONS))
            raise node.refuse(f"its activation {names[number]} is not known; allowed: {allowed}")
        settings = {
            word: listed[number]
            for word in ("alpha", "beta")
            if len(listed := node.get(f"activation_{word}") or []) > number
        }
        functions.append(partial(_ACTIVATIONS[names[number].lower()], **settings))
    return tuple(functions)


OPERATORS: dict[str, Function] = {
    "GRU": _layer(_gru_step, 3, ("Sigmoid", "Tanh"), 1),
    "LSTM": _layer(_lstm_step, 4, ("Sigmoid", "Tanh", "Tanh"), 2),
    "RNN": _layer(_rnn_step, 1, ("Tanh",), 1),
}
