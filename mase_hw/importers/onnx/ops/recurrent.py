"""Recurrent layers: one step after another, each direction for itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Function, NodeCall, Value

Activation = Callable[[Tensor], Tensor]
# Activations by their names in lower case, of the alpha and beta that a file gives.
_ACTIVATIONS: dict[str, Callable[[float | None, float | None], Activation]] = {
    "affine": lambda a, b: lambda x: (1.0 if a is None else a) * x + (b or 0.0),
    "elu": lambda a, b: lambda x: F.elu(x, 1.0 if a is None else a),
    "hardsigmoid": lambda a, b: (
        lambda x: torch.clamp((0.2 if a is None else a) * x + (0.5 if b is None else b), 0, 1)
    ),
    "leakyrelu": lambda a, b: lambda x: F.leaky_relu(x, 0.01 if a is None else a),
    "relu": lambda a, b: torch.relu,
    "scaledtanh": lambda a, b: (
        lambda x: (1.0 if a is None else a) * torch.tanh((1.0 if b is None else b) * x)
    ),
    "sigmoid": lambda a, b: torch.sigmoid,
    "softplus": lambda a, b: F.softplus,
    "softsign": lambda a, b: F.softsign,
    "tanh": lambda a, b: torch.tanh,
    "thresholdedrelu": lambda a, b: (
        lambda x: torch.where(x > (1.0 if a is None else a), x, torch.zeros_like(x))
    ),
}


@dataclass(frozen=True)
class _Direction:
    """The weights of one direction.

    Attributes:
        gates: `[gates * hidden, inputs]`, one after another.
        states: `[gates * hidden, hidden]`.
        gate_bias: `[gates * hidden]`.
        state_bias: as many.
        peepholes: `[3 * hidden]` of an LSTM, or None.
        functions: activations.
        clip: bound of their arguments, or None.
    """

    gates: Tensor
    states: Tensor
    gate_bias: Tensor
    state_bias: Tensor
    peepholes: Tensor | None
    functions: tuple[Activation, ...]
    clip: float | None

    def clipped(self, values: Tensor) -> Tensor:
        return values if self.clip is None else values.clamp(-self.clip, self.clip)


Step = Callable[[NodeCall, _Direction, Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _rnn_step(
    node: NodeCall, own: _Direction, x: Tensor, state: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    (hidden,) = state
    total = F.linear(x, own.gates, own.gate_bias) + F.linear(hidden, own.states, own.state_bias)
    return (own.functions[0](own.clipped(total)),)


def _gru_step(
    node: NodeCall, own: _Direction, x: Tensor, state: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    (hidden,) = state
    size = hidden.shape[-1]
    gate, activation = own.functions
    taken = F.linear(x, own.gates, own.gate_bias)
    kept = F.linear(hidden, own.states[: 2 * size], own.state_bias[: 2 * size])
    both = gate(own.clipped(taken[..., : 2 * size] + kept))
    update, reset = both[..., :size], both[..., size:]
    last, bias = own.states[2 * size :], own.state_bias[2 * size :]
    if node.get("linear_before_reset", 0):
        inner = reset * F.linear(hidden, last, bias)
    else:
        inner = F.linear(reset * hidden, last, bias)
    new = activation(own.clipped(taken[..., 2 * size :] + inner))
    return ((1 - update) * new + update * hidden,)


def _lstm_step(
    node: NodeCall, own: _Direction, x: Tensor, state: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    hidden, cell = state
    gate, activation, output = own.functions
    total = F.linear(x, own.gates, own.gate_bias) + F.linear(hidden, own.states, own.state_bias)
    i, o, f, c = total.chunk(4, -1)
    peeps = None if own.peepholes is None else own.peepholes.chunk(3)
    if peeps is not None:
        i, f = i + peeps[0] * cell, f + peeps[2] * cell
    enter = gate(own.clipped(i))
    forget = 1 - enter if node.get("input_forget", 0) else gate(own.clipped(f))
    cell = forget * cell + enter * activation(own.clipped(c))
    if peeps is not None:
        o = o + peeps[1] * cell
    return gate(own.clipped(o)) * output(cell), cell


def _layer(step: Step, gates: int, functions: tuple[str, ...], states: int) -> Function:
    """A recurrent operator.

    Args:
        step: from the input of a step and the state to the next state.
        gates: number of gates, the new state's among them.
        functions: default activations of a direction.
        states: 2 where a cell stands beside the hidden state.
    """

    def compute(
        node: NodeCall, x: Value, w: Value, r: Value, b: Value = None, lengths: Value = None,
        *initial: Value,
    ) -> Any:  # fmt: skip
        values, first, second = node.tensor(x), node.tensor(w), node.tensor(r)
        batch_first = bool(node.get("layout", 0))
        if not batch_first:
            # In whatever order a file has them, inferences follow each other here.
            values = values.transpose(0, 1)
        size = second.shape[-1]
        words = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        direction = str(node.get("direction", "forward"))
        if direction not in words:
            raise node.refuse(f"its direction is {direction!r}; allowed: {', '.join(words)}")
        peeps = initial[states] if len(initial) > states else None
        results, ends = [], []
        for place, backward in enumerate(words[direction]):
            bias = values.new_zeros(2 * gates * size) if b is None else node.tensor(b)[place]
            own = _Direction(
                first[place], second[place], bias[: gates * size], bias[gates * size :],
                None if peeps is None else node.tensor(peeps)[place],
                _activations(node, functions, place), node.get("clip"),
            )  # fmt: skip
            start = tuple(
                _initial(node, initial, number, place, values, size, batch_first)
                for number in range(states)
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
    node: NodeCall,
    step: Step,
    own: _Direction,
    values: Tensor,
    start: tuple[Tensor, ...],
    lengths: Value,
    *,
    backward: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    count = values.shape[1]
    if not isinstance(count, int):
        raise node.refuse("its sequence has a length that is not known; export a fixed one")
    ends = None if lengths is None else node.tensor(lengths).reshape(-1, 1)
    state, outputs = start, [start[0]] * count
    for place in reversed(range(count)) if backward else range(count):
        new = step(node, own, values[:, place], state)
        if ends is None:
            state, outputs[place] = new, new[0]
            continue
        # A sequence that has ended keeps its state, and gives zeros.
        lives = ends > place
        state = tuple(torch.where(lives, *pair) for pair in zip(new, state, strict=True))
        outputs[place] = torch.where(lives, new[0], torch.zeros_like(new[0]))
    return torch.stack(outputs, 1), state


def _initial(
    node: NodeCall,
    initial: tuple[Value, ...],
    number: int,
    place: int,
    values: Tensor,
    size: int,
    batch_first: bool,
) -> Tensor:
    if number < len(initial) and initial[number] is not None:
        return node.tensor(initial[number]).select(1 if batch_first else 0, place)
    return values.new_zeros((1, size)).expand(values.shape[0], size)


def _activations(node: NodeCall, defaults: tuple[str, ...], place: int) -> tuple[Activation, ...]:
    listed = node.get("activations")
    names = [str(name) for name in listed] if listed else list(defaults) * (place + 1)
    begin = place * len(defaults)
    alphas, betas = (list(node.get(f"activation_{word}") or []) for word in ("alpha", "beta"))
    functions = []
    for number in range(begin, begin + len(defaults)):
        name = names[number].lower()
        if name not in _ACTIVATIONS:
            allowed = ", ".join(sorted(_ACTIVATIONS))
            raise node.refuse(f"its activation {names[number]} is not known; allowed: {allowed}")
        alpha, beta = (given[number] if number < len(given) else None for given in (alphas, betas))
        functions.append(_ACTIVATIONS[name](alpha, beta))
    return tuple(functions)


OPERATORS: dict[str, Function] = {
    "GRU": _layer(_gru_step, 3, ("Sigmoid", "Tanh"), 1),
    "LSTM": _layer(_lstm_step, 4, ("Sigmoid", "Tanh", "Tanh"), 2),
    "RNN": _layer(_rnn_step, 1, ("Tanh",), 1),
}
