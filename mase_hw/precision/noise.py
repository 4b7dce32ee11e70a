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
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mase_hw._results import result_file
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.passes.formats.agreement import checksum, examples_in
from mase_hw.precision.operands import Operand
from mase_hw.precision.propagation import Measure, Propagation
from mase_hw.precision.samples import Samples, chunks

# Examples on which the noise of options is measured, and those at a time.
EXAMPLES, CHUNK = 96, 16
STATE = "noise.json"
WIDTH = "width"
TINY = 1e-300
# Two bits are a factor of 16.
STEEP = 64.0

Progress = Callable[[int, int], None]


class NoiseTable:
    """Powers of errors by operand and option, one for each output, sums over examples.

    Args:
        mg: a canonical graph without formats.
        operands: what is rounded.
        measure: which outputs count, and how.
        seed: of the random vectors.

    Attributes:
        power: `[outputs]` float64, by place of an operand and of its option.
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
        """Return error over signal, `[options, outputs]` by operand."""
        signal = self.signal.clamp(min=TINY)
        pairs = zip(self._operands, self.power, strict=True)
        return [_filled(operand, item / signal) for operand, item in pairs]

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
        """Add samples, as far as they are not in a file already.

        Args:
            samples: of which `EXAMPLES` are run.
            output: the folder of the file `STATE`; None for none.
            advance: told of parts.
        """
        mg, key = self._mg, self._key(samples)
        state = output / STATE if output else None
        stored = json.loads(state.read_text()) if state and state.is_file() else {}
        if key in stored:
            self.power = [torch.tensor(item, dtype=torch.float64) for item in stored[key]["power"]]
            self.signal = torch.tensor(stored[key]["signal"], dtype=torch.float64)
            self._parts = int(stored[key]["done"])
        parts = list(chunks(mg, samples.spread(mg, EXAMPLES), CHUNK))
        before = accumulate((examples_in(mg, inputs) for inputs in parts), initial=0)
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

    def _key(self, samples: Samples) -> str:
        options = [
            [item.name, [str(option.number_format) for option in item.options]]
            for item in self._operands
        ]
        targets = [(item.node.name, item.channels.tolist()) for item in self._measure.targets]
        counted = [self._measure.weigh.__name__, targets]
        measured = [checksum(self._mg), samples.digest(), self._seed, counted, options]
        return hashlib.sha256(json.dumps(measured).encode()).hexdigest()


def _ladders(operand: Operand) -> list[list[int]]:
    """Return the options that differ in their width alone, from the narrowest to the widest."""
    ladders: dict[Any, list[int]] = defaultdict(list)
    for number, option in enumerate(operand.options):
        rest = tuple(item for item in option.fields.items() if item[0] != WIDTH)
        ladders[rest].append(number)
    widths = [option.fields.get(WIDTH, 0) for option in operand.options]
    return [sorted(items, key=lambda number: widths[number]) for items in ladders.values()]


def measured_options(operand: Operand) -> list[int]:
    """Return the options that are measured: every second width, and the ends."""
    ladders = _ladders(operand)
    return sorted({number for items in ladders for number in (*items[::2], items[-1])})


def around(operand: Operand) -> dict[int, tuple[int, ...]]:
    """Return by option the measured ones: itself, or those of the widths beside it."""
    neighbours = dict[int, tuple[int, ...]]((n, (n,)) for n in measured_options(operand))
    for items in _ladders(operand):
        for low, number, high in zip(items[::2], items[1::2], items[2::2], strict=False):
            neighbours[number] = low, high
    return neighbours


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
