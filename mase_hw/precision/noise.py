"""The error that each format of each operand adds to the outputs, measured on samples.

An operand is rounded alone and its node computed again; what that changes in the node's result goes
to the outputs along their derivatives. Of the error `J d` of an output, with the change `d` and the
matrix of derivatives `J`, the power is the mean of `(r J d)^2` over random vectors `r` whose
elements have mean 0 and variance 1 (Hutchinson, 1990): one pass backwards for each `r` serves all
formats of all operands. What no derivative leads away from is measured with a run of the whole
graph. Errors of different operands are taken to add up in power.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.formats.agreement import examples_in
from mase_hw.passes.formats.shared_formats import shares_format
from mase_hw.precision.operands import Operand, operator_of

# Random vectors of each output, and examples at a time.
DRAWS = 16
CHUNK = 16
WIDTH = "width"
TINY = 1e-300
# Two bits are a factor of 16.
STEEP = 64.0

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Measure:
    """Outputs whose error counts.

    Attributes:
        nodes: whose results they are.
        weigh: takes a result and random numbers of its shape, and returns the vector `r`.
    """

    nodes: Sequence[Node]
    weigh: Callable[[Tensor, Tensor], Tensor] = lambda values, numbers: numbers


def by_confidence(scores: Tensor, numbers: Tensor) -> Tensor:
    """Return vectors whose squared product with an error of scores is what distributions lose.

    The Kullback-Leibler divergence of classes is, to the second order, half the error's variance
    under their probabilities `p`: `r = sqrt(p) z - p (sqrt(p) z)` has that covariance. Samples
    whose class is certain weigh nothing.
    """
    shape = scores.shape
    chances = scores.detach().reshape(len(scores), -1).softmax(1)
    numbers = chances.sqrt() * numbers.reshape(chances.shape)
    return (numbers - chances * numbers.sum(1, keepdim=True)).reshape(shape)


class NoiseTable:
    """Powers of errors by operand and option, one for each output, sums over examples.

    Attributes:
        power: `[outputs]` float64, by place of an operand and of its option.
        signal: squares of each output, `[outputs]` float64.
        done: parts of the samples that are in it.
    """

    def __init__(self, operands: Sequence[Operand], outputs: int) -> None:
        self._operands = operands
        self.power = [torch.zeros(len(item.options), outputs).double() for item in operands]
        self.signal = torch.zeros(outputs, dtype=torch.float64)
        self.done = 0

    def relative(self) -> list[Tensor]:
        """Return error over signal, `[options, outputs]` by operand."""
        signal = self.signal.clamp(min=TINY)
        known = zip(self._operands, self.power, strict=True)
        return [_filled(operand, item / signal) for operand, item in known]

    def to_dict(self) -> dict[str, object]:
        """Return the fields as values of JSON."""
        return {
            "power": [item.tolist() for item in self.power],
            "signal": self.signal.tolist(),
            "done": self.done,
        }

    def load(self, known: Mapping[str, Any]) -> None:
        """Take what `to_dict` gave."""
        self.power = [torch.tensor(item, dtype=torch.float64) for item in known["power"]]
        self.signal = torch.tensor(known["signal"], dtype=torch.float64)
        self.done = int(known["done"])


def _ladders(operand: Operand) -> list[list[int]]:
    """Return the options that differ in their width alone, from the narrowest to the widest."""
    found: dict[Any, list[int]] = defaultdict(list)
    for number, option in enumerate(operand.options):
        rest = tuple(item for item in option.fields.items() if item[0] != WIDTH)
        found[rest].append(number)
    widths = [option.fields.get(WIDTH, 0) for option in operand.options]
    return [sorted(items, key=lambda number: widths[number]) for items in found.values()]


def measured_options(operand: Operand) -> list[int]:
    """Return the options that are measured: every second width, and the ends."""
    ladders = _ladders(operand)
    return sorted({number for items in ladders for number in (*items[::2], items[-1])})


def around(operand: Operand) -> dict[int, tuple[int, ...]]:
    """Return by option the measured ones: itself, or those of the widths beside it."""
    found: dict[int, tuple[int, ...]] = {number: (number,) for number in measured_options(operand)}
    for items in _ladders(operand):
        for low, number, high in zip(items[::2], items[1::2], items[2::2], strict=False):
            found[number] = low, high
    return found


def _filled(operand: Operand, noise: Tensor) -> Tensor:
    """Return the noise of all options: half way in decibels between the widths beside it.

    Where it falls by more than two bits do, as for values that the wider one has all of, that of
    the narrower one.
    """
    noise = noise.clone()
    for number, (low, *higher) in around(operand).items():
        for high in higher:
            middle = (noise[low] * noise[high]).sqrt()
            noise[number] = torch.where(noise[high] * STEEP < noise[low], noise[low], middle)
    return noise


class NoiseMeter:
    """Measures a table of noise, a part of the samples at a time.

    Args:
        mg: a canonical graph without formats.
        operands: what is rounded.
        measure: which outputs count, and how.
        seed: of the random vectors.
    """

    def __init__(
        self, mg: MaseGraph, operands: Sequence[Operand], measure: Measure, seed: int = 0
    ) -> None:
        self._mg, self._measure, self._seed = mg, measure, seed
        self._by_node: dict[Node, list[tuple[int, Operand]]] = defaultdict(list)
        for place, item in enumerate(operands):
            self._by_node[item.node].append((place, item))

    def add(self, table: NoiseTable, inputs: Sequence[Tensor]) -> None:
        """Add a part of the samples to a table."""
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + table.done)
        run = GraphRun(self._mg, only=())
        values = self._forward(run, inputs)
        outputs = [values[node] for node in self._measure.nodes]
        slopes = self._slopes(values, outputs, generator)
        count = examples_in(self._mg, inputs)
        with torch.no_grad():
            for node, items in self._by_node.items():
                exact = values[node]
                for place, operand in items:
                    for number in measured_options(operand):
                        given = operand.options[number].number_format
                        changed = self._changed(run, operand, given, values)
                        table.power[place][number] += self._power(
                            run, node, changed, exact, slopes, values, count
                        )
            table.signal += torch.stack([item.double().square().sum() for item in outputs])
        table.done += 1

    def _forward(self, run: GraphRun, inputs: Sequence[Tensor]) -> dict[Node, Tensor]:
        """Return all results, the first real ones as leaves of a graph of derivatives."""
        values: dict[Node, Tensor] = {}
        given = iter(inputs)
        for node in self._mg.nodes:
            if node.op in ("get_attr", "output"):
                continue
            entry = next(given) if node.op == "placeholder" else None
            value = run.step(node, values, entry)
            if isinstance(value, Tensor) and value.is_floating_point():
                value = value.detach().requires_grad_() if not value.requires_grad else value
            values[node] = value
        return values

    def _slopes(
        self, values: Mapping[Node, Tensor], outputs: Sequence[Tensor], generator: torch.Generator
    ) -> list[dict[Node, Tensor]]:
        """Return by output the derivatives of `r y` after the result of every node, by draw."""
        nodes = [
            node
            for node in self._by_node
            if isinstance(values[node], Tensor) and values[node].requires_grad
        ]
        found = []
        for output in outputs:
            draws: dict[Node, list[Tensor]] = defaultdict(list)
            for _ in range(DRAWS if output.requires_grad else 0):
                numbers = torch.randn(output.shape, generator=generator, dtype=output.dtype)
                vector = self._measure.weigh(output, numbers)
                slopes = torch.autograd.grad(
                    output, [values[n] for n in nodes], vector, True, allow_unused=True
                )
                for node, slope in zip(nodes, slopes, strict=True):
                    if slope is not None:
                        draws[node].append(slope)
            found.append({node: torch.stack(draws.pop(node)) for node in list(draws)})
        return found

    def _changed(
        self,
        run: GraphRun,
        operand: Operand,
        number_format: Format,
        values: Mapping[Node, Tensor],
    ) -> Tensor:
        """Return the result of a node with one operand rounded."""
        node = operand.node
        if operand.name == "data_out_0" and not shares_format(node):
            return number_format.round_values(values[node].detach())
        arguments, tensors = run.operands(node, values)
        names = list(tensors) if shares_format(node) else [operand.name]
        tensors |= {name: number_format.round_values(tensors[name].detach()) for name in names}
        result = operator_of(node).compute(node.target, arguments, tensors)
        return number_format.round_values(result) if shares_format(node) else result

    def _power(
        self,
        run: GraphRun,
        node: Node,
        changed: Tensor,
        exact: Tensor,
        slopes: Sequence[Mapping[Node, Tensor]],
        values: Mapping[Node, Tensor],
        count: int,
    ) -> Tensor:
        """Return the power of the error of each output."""
        if any(node in draws for draws in slopes):
            change = torch.nan_to_num(changed - exact, 0.0, 0.0, 0.0)
            return torch.stack([_along(change, draws.get(node), count) for draws in slopes])
        return self._directly(run, node, changed, values)

    def _directly(
        self, run: GraphRun, node: Node, changed: Tensor, values: Mapping[Node, Tensor]
    ) -> Tensor:
        """Return the same from a run of what comes behind a node."""
        again = {**values, node: changed}
        behind = {node}
        for later in self._mg.nodes:
            if later.op == "call_function" and behind.intersection(later.all_input_nodes):
                again[later] = run.step(later, again)
                behind.add(later)
        return torch.stack(
            [
                _error(values[item], again[item]).double().square().sum()
                for item in self._measure.nodes
            ]
        )


def _error(exact: Tensor, rounded: Tensor) -> Tensor:
    found = rounded.double() - exact.double()
    return torch.nan_to_num(found, 0.0, 0.0, 0.0)


def _along(change: Tensor, slopes: Tensor | None, count: int) -> Tensor:
    """Return the mean power of `r J d` over draws, examples apart where they lie apart."""
    if slopes is None:
        return torch.zeros((), dtype=torch.float64)
    apart = change.dim() > 0 and change.shape[0] % max(count, 1) == 0
    rows = count if apart else 1
    sums = torch.einsum("re,dre->dr", change.reshape(rows, -1), slopes.reshape(DRAWS, rows, -1))
    return sums.double().square().sum() / DRAWS


def parts(mg: MaseGraph, batches: Sequence[Sequence[Tensor]], most: int) -> list[list[Tensor]]:
    """Return the first `most` examples of batches, `CHUNK` at a time."""
    return list(_parts(mg, batches, most))


def _parts(mg: MaseGraph, batches: Sequence[Sequence[Tensor]], most: int) -> Iterator[list[Tensor]]:
    left = most
    for inputs in batches:
        count = examples_in(mg, inputs)
        if not mg.batched or mg.keeps_state:
            yield list(inputs)
            left -= count
        else:
            for start in range(0, min(count, left), CHUNK):
                part = slice(start, min(start + CHUNK, left, count))
                yield [x[part] if x.dim() and len(x) == count else x for x in inputs]
            left -= min(count, left)
        if left <= 0:
            return
