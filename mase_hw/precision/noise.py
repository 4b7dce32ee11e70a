"""The error that each format of each operand adds to the outputs, measured on samples.

An operand is rounded alone and its node computed again; what that changes in the node's result goes
to the outputs along their derivatives. Of the error `J d` of an output, with the change `d` and the
matrix of derivatives `J`, the power is the mean of `(r J d)^2` over random vectors `r` whose
elements have mean 0 and variance 1 (Hutchinson, 1990): one pass backwards for each `r` serves all
formats of all operands. What no derivative leads away from is measured with a run of the whole
graph. Errors of different operands are taken to add up in power.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._results import result_file
from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import shares_format
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.formats.agreement import checksum, examples_in
from mase_hw.precision.samples import Samples, chunks
from mase_hw.precision.space import Operand, operator_of

# Random vectors of each output, or in all of those of its channels.
DRAWS = 16
# Examples on which the noise of options is measured, and those at a time.
EXAMPLES, CHUNK = 96, 16
STATE = "noise.json"
WIDTH = "width"
TINY = 1e-300
# Two bits are a factor of 16.
STEEP = 64.0

Progress = Callable[[int, int], None]


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
    """A part of the samples, run once, and the derivatives of the outputs after some nodes.

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
        self._values: dict[Node, Tensor] = {}
        arguments = iter(inputs)
        for node in mg.nodes:
            if node.op not in ("get_attr", "output"):
                entry = next(arguments) if node.op == "placeholder" else None
                value = self._run.step(node, self._values, entry)
                if isinstance(value, Tensor) and value.is_floating_point():
                    value = value if value.requires_grad else value.detach().requires_grad_()
                self._values[node] = value
        self._count = examples_in(mg, inputs)
        self._slopes = self._slopes_of(nodes, generator)
        counted = [(item.weight > 0).expand_as(self._values[item.node]) for item in measure.targets]
        self.signal = torch.stack([item.sum().double() for item in counted])

    @torch.no_grad()
    def power(self, operand: Operand, number_format: Format) -> Tensor:
        """Return the power of the error of each target, `[targets]`, with one operand rounded."""
        node, changed = operand.node, self._changed(operand, number_format)
        if not any(node in draws for draws in self._slopes):
            return self._directly(node, changed)
        change = torch.nan_to_num(changed - self._values[node], 0.0, 0.0, 0.0)
        # By example, where those lie apart.
        apart = change.dim() > 0 and change.shape[0] % max(self._count, 1) == 0
        flat = change.reshape(self._count if apart else 1, -1)
        powers = []
        for draws in self._slopes:
            if node not in draws:
                powers.append(torch.zeros((), dtype=torch.float64))
                continue
            slopes = draws[node].reshape(len(draws[node]), len(flat), -1)
            errors = torch.einsum("re,dre->dr", flat, slopes).double()
            powers.append(errors.square().sum() / len(errors))
        return torch.stack(powers)

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
        node, shares = operand.node, shares_format(operand.node)
        if operand.name == "data_out_0" and not shares:
            return number_format.round_values(self._values[node].detach())
        arguments, tensors = self._run.operands(node, self._values)
        names = list(tensors) if shares else [operand.name]
        tensors |= {name: number_format.round_values(tensors[name].detach()) for name in names}
        result = operator_of(node).compute(node.target, arguments, tensors)
        return number_format.round_values(result) if shares else result

    def _directly(self, node: Node, changed: Tensor) -> Tensor:
        again, behind = {**self._values, node: changed}, {node}
        for later in self._mg.nodes:
            if later.op == "call_function" and behind.intersection(later.all_input_nodes):
                again[later] = self._run.step(later, again)
                behind.add(later)
        power = []
        for item in self._measure.targets:
            error = again[item.node].double() - self._values[item.node].double()
            power.append((item.weight * error.nan_to_num(0.0, 0.0, 0.0)).square().sum())
        return torch.stack(power)


class NoiseTable:
    """Powers of errors by operand and option, one for each output, sums over examples.

    Attributes:
        power: `[options, outputs]` float64 by operand.
        signal: squares of each output, `[outputs]` float64.
    """

    def __init__(
        self, mg: MaseGraph, operands: Sequence[Operand], measure: Measure, seed: int = 0
    ) -> None:
        self._mg, self._operands, self._measure, self._seed = mg, operands, measure, seed
        outputs = len(measure.targets)
        self.power = [torch.zeros(len(item.options), outputs).double() for item in operands]
        self.signal = torch.zeros(outputs, dtype=torch.float64)
        self._parts = 0

    def relative(self) -> list[Tensor]:
        """Return error over signal, `[options, outputs]` by operand.

        Options that are not measured lie half way in decibels between the widths beside them; as
        the narrower one where noise falls by more than two bits do, as for values that the wider
        one has all of.
        """
        signal, tables = self.signal.clamp(min=TINY), []
        for operand, power in zip(self._operands, self.power, strict=True):
            noise = power / signal
            for number, (low, *higher) in around(operand).items():
                for high in higher:
                    middle = (noise[low] * noise[high]).sqrt()
                    steep = noise[high] * STEEP < noise[low]
                    noise[number] = torch.where(steep, noise[low], middle)
            tables.append(noise)
        return tables

    def add(self, inputs: Sequence[Tensor]) -> None:
        """Add a part of the samples."""
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + self._parts)
        nodes = dict.fromkeys(item.node for item in self._operands)
        errors = Propagation(self._mg, nodes, self._measure, inputs, generator)
        for place, operand in enumerate(self._operands):
            for number in measured_options(operand):
                number_format = operand.options[number].number_format
                self.power[place][number] += errors.power(operand, number_format)
        self.signal += errors.signal
        self._parts += 1

    def add_all(self, samples: Samples, output: Path | None, advance: Progress) -> None:
        """Add `EXAMPLES` of the samples, as far as the file `STATE` of a folder lacks them."""
        options = [
            [item.name, [str(option.number_format) for option in item.options]]
            for item in self._operands
        ]
        targets = [
            (item.node.name, item.weight.flatten().tolist()) for item in self._measure.targets
        ]
        counted = [self._measure.weigh.__name__, targets]
        measured = [checksum(self._mg), samples.digest(), self._seed, counted, options]
        key = hashlib.sha256(json.dumps(measured).encode()).hexdigest()
        state = output / STATE if output else None
        stored = json.loads(state.read_text()) if state and state.is_file() else {}
        if key in stored:
            self.power = [torch.tensor(item, dtype=torch.float64) for item in stored[key]["power"]]
            self.signal = torch.tensor(stored[key]["signal"], dtype=torch.float64)
            self._parts = int(stored[key]["done"])
        parts = list(chunks(self._mg, samples.spread(self._mg, EXAMPLES), CHUNK))
        before = accumulate((examples_in(self._mg, inputs) for inputs in parts), initial=0)
        parts = [inputs for inputs, count in zip(parts, before, strict=False) if count < EXAMPLES]
        for number, inputs in enumerate(parts):
            if number >= self._parts:
                self.add(inputs)
                power, signal = [item.tolist() for item in self.power], self.signal.tolist()
                entry = {"power": power, "signal": signal, "done": self._parts}
                if state:
                    with result_file(state) as file:
                        file.write_text(json.dumps({**stored, key: entry}))
            advance(number + 1, len(parts))


def measured_options(operand: Operand) -> list[int]:
    """Return the options that are measured: every second width, and the ends."""
    return sorted({n for items in _ladders(operand) for n in (*items[::2], items[-1])})


def around(operand: Operand) -> dict[int, tuple[int, ...]]:
    """Return by option the measured ones: itself, or those of the widths beside it."""
    neighbours = dict[int, tuple[int, ...]]((n, (n,)) for n in measured_options(operand))
    for items in _ladders(operand):
        for low, number, high in zip(items[::2], items[1::2], items[2::2], strict=False):
            neighbours[number] = low, high
    return neighbours


def _ladders(operand: Operand) -> list[list[int]]:
    """Return the options that differ in their width alone, from the narrowest to the widest."""
    ladders: dict[Any, list[int]] = defaultdict(list)
    for number, option in enumerate(operand.options):
        ladders[tuple(item for item in option.fields.items() if item[0] != WIDTH)].append(number)
    widths = [option.fields.get(WIDTH, 0) for option in operand.options]
    return [sorted(items, key=widths.__getitem__) for items in ladders.values()]
