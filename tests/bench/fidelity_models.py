"""Small models that lose the float model's results where formats are chosen badly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import torch
from torch import Tensor, nn
from torch.nn import functional

from mase_hw._kinds import Record, Setting

EXAMPLES = 64
FILLS = (-1e4, -1e9, torch.finfo(torch.float32).min, -math.inf)
TRAINED_DECADES = 1.2


def entry(bits: int, **others: Setting) -> Record:
    """Return the configuration of fixed point of a width everywhere, and of nodes by name."""
    widths = {f"{operand}_width": bits for operand in ("data_in", "weight", "bias")}
    config = {"by": ["name", "type"], "default": {"config": {"name": "fixed", **widths}}}
    return config | {name: {"config": item} for name, item in others.items()}


@dataclass(frozen=True)
class Case:
    """A model in some order of consumers.

    Attributes:
        name: of the model, whatever the order.
        model: in evaluation mode.
        inputs: examples.
        config: number formats.
        outputs: positions of the outputs that are to be right.
    """

    name: str
    model: nn.Module
    inputs: tuple[Tensor, ...]
    config: Mapping[str, object] = field(default_factory=lambda: entry(16))
    outputs: Sequence[int] = (0,)


def cases() -> Iterator[Case]:
    """Yield every model in every order of its consumers."""
    for cut in CUTS:
        for order in permutations(range(3)):
            yield Case(f"parts by {cut}", Parts(cut, order), (_values(6),), outputs=(0, 1, 2))
            model, inputs = Parts(cut, order, projected=False), _values(6) * _sizes(order)
            yield Case(f"parts of the input by {cut}", model, (inputs,), outputs=(0, 1, 2))
    few = {"name": "fixed", "data_in_width": 4, "weight_width": 4, "bias_width": 8}
    config = entry(16, few=few | {"data_out_width": 16})
    for order in permutations(range(2)):
        yield Case("4 and 16 bits", Branches(order), (_values(6),), config, (1,))
    for hand in (False, True):
        name = "LSTM by hand" if hand else "LSTM"
        yield Case(f"{name}, forget bias of 6", Recurrent(hand), (torch.randn(16, 5, 4),))
    for kind in (nn.GRU, nn.LSTM):
        layer = First(kind(3, 4, batch_first=True))
        yield Case(f"{kind.__name__} as it is initialised", layer, (torch.randn(16, 5, 3),))
    attention = First(nn.MultiheadAttention(8, 2, batch_first=True), 3)
    trained_weights(attention)
    yield Case("attention, trained-like weights", attention, (torch.randn(16, 5, 8),))


def trained_weights(model: nn.Module) -> None:
    """Scale the rows of every matrix, in place, by factors over `TRAINED_DECADES` decades."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                shape = len(parameter), *[1] * (parameter.dim() - 1)
                parameter.mul_(10 ** (TRAINED_DECADES * (torch.rand(shape) - 0.5)))


def _values(features: int) -> Tensor:
    return torch.rand(EXAMPLES, features) * 2 - 1


def _sizes(order: Sequence[int]) -> Tensor:
    return torch.tensor([SIZES[place] for place in order]).repeat_interleave(2)


# How large the values are that each reader takes.
SIZES = (0.01, 1.0, 8.0)
CUTS: Mapping[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "slice": lambda y: (y[:, :2], y[:, 2:4], y[:, 4:]),
    "chunk": lambda y: y.chunk(3, 1),
    "split": lambda y: torch.split(y, 2, 1),
    "permute": lambda y: y.reshape(-1, 3, 2).permute(1, 0, 2).unbind(0),
    "reshape": lambda y: y.reshape(-1, 3, 2).unbind(1),
}
READERS: Sequence[Callable[[Tensor], Tensor]] = (torch.sigmoid, torch.tanh, functional.silu)


class Parts(nn.Module):
    """A tensor in parts of very different ranges, in some order, each with a reader of its own."""

    def __init__(self, cut: str, order: Sequence[int], projected: bool = True) -> None:
        super().__init__()
        self.cut, self.order = cut, order
        self.layer = nn.Linear(6, 6, bias=False) if projected else nn.Identity()
        with torch.no_grad():
            for weight in self.layer.parameters():
                weight.copy_(torch.diag(_sizes(order)))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the results in the order of the readers."""
        parts = CUTS[self.cut](self.layer(x))
        found = {place: READERS[place](part) for place, part in zip(self.order, parts, strict=True)}
        return tuple(found[place] for place in sorted(found))


class Branches(nn.Module):
    """A residual branch of few bits beside one of many."""

    def __init__(self, order: Sequence[int]) -> None:
        super().__init__()
        self.order = order
        self.stem, self.few, self.many = nn.Linear(6, 6), nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute the branches in their order."""
        y = torch.tanh(self.stem(x))
        results = {place: (self.few, self.many)[place](y) for place in self.order}
        return results[0], results[1]


class Recurrent(nn.Module):
    """An LSTM that hardly forgets, as trained ones do, of torch or by hand."""

    def __init__(self, hand: bool) -> None:
        super().__init__()
        self.hand = hand
        self.layer = nn.LSTM(4, 3, batch_first=True)
        with torch.no_grad():
            _, bias = self._weights("ih")
            bias[:3] = 0
            bias[3:6] = 6

    def forward(self, x: Tensor) -> Tensor:
        """Return all hidden states."""
        layer, steps = self.layer, list[Tensor]()
        if not self.hand:
            states: Tensor = layer(x)[0]
            return states
        hidden, cell = x.new_zeros(x.shape[0], 3), x.new_zeros(x.shape[0], 3)
        for step in x.unbind(1):
            gates = functional.linear(step, *self._weights("ih"))
            gates = gates + functional.linear(hidden, *self._weights("hh"))
            enter, keep, new, leave = torch.chunk(gates, 4, 1)
            cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = leave.sigmoid() * cell.tanh()
            steps.append(hidden)
        return torch.stack(steps, 1)

    def _weights(self, of: str) -> tuple[Tensor, Tensor]:
        """Return weight and bias of the inputs, `ih`, or of the hidden state, `hh`."""
        weight, bias = (getattr(self.layer, f"{kind}_{of}_l0") for kind in ("weight", "bias"))
        return weight, bias


class First(nn.Module):
    """The first result of a layer that takes its input so many times."""

    def __init__(self, layer: nn.Module, times: int = 1) -> None:
        super().__init__()
        self.layer, self.times = layer, times

    def forward(self, x: Tensor) -> Tensor:
        """Leave the others out."""
        result: Tensor = self.layer(*[x] * self.times)[0]
        return result


class Masked(nn.Module):
    """Scores of which some are filled, and what reads them."""

    def __init__(self, reader: str, fill: float, constant: bool) -> None:
        super().__init__()
        self.reader, self.fill, self.constant = reader, fill, constant
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.register_buffer("seen", torch.tril(torch.ones(6, 6)))

    def forward(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        """Fill what is not seen."""
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 8**0.5
        known = self.seen if seen is None else seen
        return MASKED[self.reader](scores.masked_fill(known == 0, self.fill), self.value(x))


MASKED: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "softmax": lambda scores, values: scores.softmax(-1) @ values,
    "log-softmax": lambda scores, values: scores.log_softmax(-1).exp() @ values,
    "maximum": lambda scores, _: scores.amax(-1),
    "mean": lambda scores, _: scores.mean(-1),
    "sigmoid": lambda scores, values: scores.sigmoid() @ values,
}


def masked() -> Iterator[Case]:
    """Yield masked scores for every reader, fill, and place of the mask."""
    for reader in MASKED:
        for fill in FILLS:
            for constant in (True, False):
                torch.manual_seed(0)
                seen = torch.tril(torch.ones(6, 6)).expand(16, 6, 6).clone()
                seen[:, :, 1] *= (torch.arange(16) % 2)[:, None]
                inputs = (torch.randn(16, 6, 8), *(() if constant else (seen,)))
                where = "constant" if constant else "input"
                yield Case(f"{reader}, {fill:.3g}, {where}", Masked(reader, fill, constant), inputs)
