"""How rounding one operand changes the outputs, along their derivatives (see `noise.py`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.formats.agreement import examples_in
from mase_hw.passes.formats.edges import shares_format
from mase_hw.precision.operands import Operand, operator_of

# Random vectors of each output, or in all of those of its channels.
DRAWS = 16


@dataclass(frozen=True)
class Target:
    """An output, or a channel of one, whose error counts.

    Attributes:
        node: whose result it is.
        weight: what errors are multiplied by, of the result's dimensions or 1 of each: the inverse
            deviation of what counts, 0 of other channels.
        draws: random vectors.
    """

    node: Node
    weight: Tensor
    draws: int = DRAWS

    @property
    def channels(self) -> Tensor:
        """The weight of each channel, `[channels]`."""
        return self.weight.flatten()


@dataclass(frozen=True)
class Measure:
    """Outputs whose errors are measured.

    Attributes:
        targets: outputs whose errors count.
        weigh: takes a result, random numbers of its shape and a weight, and returns the vector `r`.
    """

    targets: Sequence[Target]
    weigh: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda values, numbers, w: numbers * w


def by_confidence(scores: Tensor, numbers: Tensor, weight: Tensor) -> Tensor:
    """Return vectors whose squared product with an error of scores is what distributions lose.

    The Kullback-Leibler divergence of classes is, to the second order, half the error's variance
    under their probabilities `p`: `r = sqrt(p) z - p (sqrt(p) z)` has that covariance. Samples
    whose class is certain weigh nothing.
    """
    shape = scores.shape
    chances = scores.detach().reshape(len(scores), -1).softmax(1)
    numbers = chances.sqrt() * numbers.reshape(chances.shape)
    return (numbers - chances * numbers.sum(1, keepdim=True)).reshape(shape)


class Propagation:
    """A part of the samples, run once, and the derivatives of the outputs in it.

    Args:
        mg: a canonical graph without formats.
        nodes: whose operands are rounded.
        measure: which outputs count, and how.
        inputs: the samples.
        generator: of the random vectors.

    Attributes:
        signal: elements that count of each target, `[targets]` float64.
    """

    def __init__(
        self,
        mg: MaseGraph,
        nodes: Collection[Node],
        measure: Measure,
        inputs: Sequence[Tensor],
        generator: torch.Generator,
    ) -> None:
        self._mg, self._measure = mg, measure
        self._run = GraphRun(mg, only=())
        self._values = self._forward(inputs)
        self._count = examples_in(mg, inputs)
        self._slopes = self._slopes_of(nodes, generator)
        counted = [(item.weight > 0).expand_as(self._values[item.node]) for item in measure.targets]
        self.signal = torch.stack([item.sum().double() for item in counted])

    @torch.no_grad()
    def power(self, operand: Operand, number_format: Format) -> Tensor:
        """Return the power of the error of each target, `[targets]`, with one operand rounded."""
        changed = self._changed(operand, number_format)
        if not self._leads_on(operand.node):
            return self._directly(operand.node, changed)
        return torch.stack([_power(item) for item in self._errors(operand.node, changed)])

    def _leads_on(self, node: Node) -> bool:
        return any(node in draws for draws in self._slopes)

    def _errors(self, node: Node, changed: Tensor) -> list[Tensor]:
        """Return `r J d` of each output by draw, `[draws, examples]`, where those lie apart."""
        change = torch.nan_to_num(changed - self._values[node], 0.0, 0.0, 0.0)
        apart = change.dim() > 0 and change.shape[0] % max(self._count, 1) == 0
        rows = self._count if apart else 1
        flat, none = change.reshape(rows, -1), torch.zeros(1, rows)
        return [
            torch.einsum(
                "re,dre->dr", flat, draws[node].reshape(len(draws[node]), rows, -1)
            ).double()
            if node in draws
            else none.double()
            for draws in self._slopes
        ]

    def _forward(self, inputs: Sequence[Tensor]) -> dict[Node, Tensor]:
        values: dict[Node, Tensor] = {}
        arguments = iter(inputs)
        for node in self._mg.nodes:
            if node.op in ("get_attr", "output"):
                continue
            entry = next(arguments) if node.op == "placeholder" else None
            value = self._run.step(node, values, entry)
            if isinstance(value, Tensor) and value.is_floating_point():
                value = value.detach().requires_grad_() if not value.requires_grad else value
            values[node] = value
        return values

    def _slopes_of(
        self, nodes: Collection[Node], generator: torch.Generator
    ) -> list[dict[Node, Tensor]]:
        """Return by target the derivatives of `r y` after the result of every node, by draw."""
        values = self._values
        nodes = [
            node
            for node in nodes
            if isinstance(values[node], Tensor) and values[node].requires_grad
        ]
        slopes_by_target = []
        for target in self._measure.targets:
            output = values[target.node]
            draws: dict[Node, list[Tensor]] = defaultdict(list)
            for _ in range(target.draws if output.requires_grad else 0):
                signs = torch.randint(2, output.shape, generator=generator) * 2.0 - 1.0
                vector = self._measure.weigh(output, signs.to(output.dtype), target.weight)
                slopes = torch.autograd.grad(
                    output, [values[n] for n in nodes], vector, True, allow_unused=True
                )
                for node, slope in zip(nodes, slopes, strict=True):
                    if slope is not None:
                        draws[node].append(slope)
            slopes_by_target.append({node: torch.stack(draws.pop(node)) for node in list(draws)})
        return slopes_by_target

    def _changed(self, operand: Operand, number_format: Format) -> Tensor:
        node = operand.node
        if operand.name == "data_out_0" and not shares_format(node):
            return number_format.round_values(self._values[node].detach())
        arguments, tensors = self._run.operands(node, self._values)
        names = list(tensors) if shares_format(node) else [operand.name]
        tensors |= {name: number_format.round_values(tensors[name].detach()) for name in names}
        result = operator_of(node).compute(node.target, arguments, tensors)
        return number_format.round_values(result) if shares_format(node) else result

    def _directly(self, node: Node, changed: Tensor) -> Tensor:
        again = {**self._values, node: changed}
        behind = {node}
        for later in self._mg.nodes:
            if later.op == "call_function" and behind.intersection(later.all_input_nodes):
                again[later] = self._run.step(later, again)
                behind.add(later)
        power = []
        for item in self._measure.targets:
            error = again[item.node].double() - self._values[item.node].double()
            power.append((item.weight * error.nan_to_num(0.0, 0.0, 0.0)).square().sum())
        return torch.stack(power)


def _power(errors: Tensor) -> Tensor:
    """Return the mean over draws of the power of `r J d`, `[draws, examples]`."""
    return errors.square().sum() / len(errors)
