"""Random models whose tensors have several consumers, and the best that their formats could do.

A model is a list of steps, each of which reads results of earlier ones. `Network` runs them in any
order that their operands allow: the function is the same, the order of consumers is not. Weights
are as training leaves them: channels differ in size by up to three decades, and so do layers.

`oracle` rounds on edges alone: each consumer takes the float model's exact tensor in the format
that suits what it reads.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.fx import Interpreter, Node

from mase_hw.emit.flow import canonicalize
from mase_hw.formats.fixed import Fixed
from mase_hw.graph import MaseGraph
from mase_hw.graph.nodes import tensor_arguments
from mase_hw.ops import operator_for

ROWS, TIME, WIDTH = 64, 4, 6
DECADES = 3.0
KINDS = (
    *("linear", "linear", "shared", "chunk", "split", "slice", "cat", "add", "mul"),
    *("sigmoid", "tanh", "relu", "turn", "norm", "lstm", "gru", "attention"),
)

Function = Callable[..., Tensor | tuple[Tensor, ...]]


# Decibels that formats for all consumers may lose against formats for each. What errors of several
# roundings add up to is within 3 in 95 of 100 outputs; a gate near its threshold amplifies more.
MARGIN_DB = 10.0


@dataclass
class Step:
    """One call: what it reads, and how many tensors it gives."""

    kind: str
    reads: list[tuple[int, int]]
    module: nn.Module | None = None
    results: int = 1
    numbers: list[int] = field(default_factory=list)

    def __call__(self, *given: Tensor) -> tuple[Tensor, ...]:
        if self.module is not None:
            found = self.module(*(given * 3 if self.kind == "attention" else given))
            found = found[0] if self.kind in ("lstm", "gru", "attention") else found
            return (found,)
        functions: dict[str, Callable[..., tuple[Tensor, ...]]] = {
            "chunk": lambda x: tuple(x.chunk(2, -1)),
            "split": lambda x: tuple(x.split(self.numbers, -1)),
            "slice": lambda x: (x[..., : self.numbers[0]], x[..., self.numbers[0] :]),
            "cat": lambda x, y: (torch.cat([x, y], -1),),
            "add": lambda x, y: (x + y,),
            "mul": lambda x, y: (x * y,),
            "sigmoid": lambda x: (x.sigmoid(),),
            "tanh": lambda x: (x.tanh(),),
            "relu": lambda x: (x.relu(),),
            "turn": lambda x: (x.transpose(1, 2).transpose(1, 2) * 1.0,),
        }
        return functions[self.kind](*given)


class Network(nn.Module):
    """Runs steps in an order; results of some of them are the model's."""

    def __init__(self, steps: list[Step], outputs: list[tuple[int, int]], order: list[int]) -> None:
        super().__init__()
        self.steps, self.outputs, self.order = steps, outputs, order
        self.layers = nn.ModuleList(step.module for step in steps if step.module is not None)

    def forward(self, x: Tensor) -> list[Tensor]:
        values: dict[int, tuple[Tensor, ...]] = {-1: (x,)}
        for number in self.order:
            step = self.steps[number]
            values[number] = step(*(values[place][result] for place, result in step.reads))
        return [values[place][result] for place, result in self.outputs]

    def in_order(self, order: list[int]) -> Network:
        return Network(self.steps, self.outputs, order).eval()


def random_network(seed: int, length: int = 9) -> tuple[Network, Tensor]:
    choose = random.Random(seed)
    torch.manual_seed(seed)
    steps: list[Step] = []
    free: dict[tuple[int, int], int] = {(-1, 0): WIDTH}
    shared: nn.Linear | None = None
    while len(steps) < length:
        source = choose.choice(list(free)[-5:])
        width = free[source]
        kind = choose.choice(KINDS)
        other = choose.choice([item for item in free if free[item] == width])
        step = Step(kind, [source])
        widths = [width]
        if kind == "linear":
            widths = [choose.choice([WIDTH, 2 * WIDTH])]
            step.module = nn.Linear(width, widths[0])
        elif kind == "shared":
            if width != WIDTH:
                continue
            shared = shared or nn.Linear(WIDTH, WIDTH)
            step.module = shared
        elif kind == "norm":
            step.module = nn.LayerNorm(width)
        elif kind in ("lstm", "gru"):
            step.module = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](width, 4, batch_first=True)
            widths = [4]
        elif kind == "attention":
            if width % 2:
                continue
            step.module = nn.MultiheadAttention(width, 2, batch_first=True)
        elif kind in ("chunk", "split", "slice"):
            if width < 4 or (kind == "chunk" and width % 2):
                continue
            first = width // 2 if kind == "chunk" else choose.randrange(1, width)
            widths = step.numbers = [first, width - first]
            step.results = 2
        elif kind == "cat":
            step.reads = [source, choose.choice(list(free))]
            widths = [width + free[step.reads[1]]]
        elif kind in ("add", "mul"):
            step.reads = [source, other]
        if max(widths) > 4 * WIDTH:
            continue
        free |= {(len(steps), result): size for result, size in enumerate(widths)}
        steps.append(step)
    read = {place for step in steps for place in step.reads}
    outputs = [place for place in free if place not in read and place != (-1, 0)]
    inside = [place for place in free if place in read and place[0] >= 0]
    outputs += choose.sample(inside, min(1, len(inside)))
    network = Network(steps, outputs, list(range(len(steps)))).eval()
    _train_like(network, choose)
    scale = 10 ** (torch.rand(WIDTH) * DECADES / 2 - DECADES / 4)
    return network, torch.randn(ROWS, TIME, WIDTH) * scale


def _train_like(network: nn.Module, choose: random.Random) -> None:
    """Scale weights: rows over three decades, and layers over one."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.dim() > 1:
                rows = 10 ** ((torch.rand(len(parameter), 1) - 0.5) * DECADES)
                parameter.mul_(rows * 10 ** choose.uniform(-0.5, 0.5))
            elif "bias" in name:
                parameter.mul_(choose.choice([1.0, 4.0]))


def orders(network: Network, count: int, seed: int = 0) -> list[list[int]]:
    choose = random.Random(seed)
    found = []
    for _ in range(count):
        left, done = set(range(len(network.steps))), {-1}
        order: list[int] = []
        while left:
            ready = [n for n in left if all(p in done for p, _ in network.steps[n].reads)]
            order.append(choose.choice(sorted(ready)))
            left.discard(order[-1])
            done.add(order[-1])
        found.append(order)
    return found


def configuration(width: int) -> dict[str, object]:
    fields = dict.fromkeys(("data_in_width", "weight_width", "bias_width"), width)
    return {"by": "type", "default": {"config": {"name": "fixed", **fields}}}


def oracle(mg: MaseGraph, x: Tensor, width: int) -> list[Tensor]:
    """Return the outputs of a graph that rounds every operand to a format of its own."""
    canonical = canonicalize(mg, configuration(width))
    exact = _Edges(canonical, width, None)
    with torch.no_grad():
        exact.run(x)
        rounded = _Edges(canonical, width, exact.ranges)
        rounded.run(x)
    return [
        _fitted(exact.ranges[node.name, ""], width).round_values(rounded.results[node.name])
        for node in canonical.outputs
    ]


def _fitted(ends: tuple[float, float], width: int) -> Fixed:
    return Fixed.fit(*ends, width=width)


class _Edges(Interpreter):
    """Runs a graph; notes ranges first, and rounds operands to them in a second run."""

    def __init__(
        self, mg: MaseGraph, width: int, ranges: dict[tuple[str, str], tuple[float, float]] | None
    ) -> None:
        super().__init__(mg.model)
        self._mg, self._width, self._given = mg, width, ranges
        self.ranges: dict[tuple[str, str], tuple[float, float]] = {}
        self.results: dict[str, Tensor] = {}

    def run_node(self, n: Node) -> object:
        kept = dict(self.env)
        operator = operator_for(n.target) if n.op == "call_function" else None
        if operator is not None and operator.casts:
            for name, item in tensor_arguments(n, operator.operand_names):
                if isinstance(item, Node) and torch.is_floating_point(self.env[item]):
                    self.env[item] = self._rounded(n, name, item)
        value = super().run_node(n)
        self.env.update(kept)
        if isinstance(value, Tensor):
            self.results[n.name] = value
            self._note(n.name, "", value)
        return value

    def _rounded(self, node: Node, name: str, item: Node) -> Tensor:
        value: Tensor = self.env[item]
        self._note(node.name, name, value)
        if self._given is None:
            return value
        return _fitted(self._given[node.name, name], self._width).round_values(value)

    def _note(self, node: str, name: str, value: Tensor) -> None:
        if value.is_floating_point():
            self.ranges[node, name] = float(value.min()), float(value.max())


def decibels(exact: Tensor, found: Tensor) -> float:
    exact, found = exact.detach().double(), found.detach().double().reshape(exact.shape)
    noise, signal = float((exact - found).square().sum()), float(exact.square().sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf
