"""Three parts of the samples: to choose formats on, to compare on, and to judge on.

Ranges of streams are observed on the first two, and reach as far as samples to come likely do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.data import Split
from mase_hw.errors import DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import ValueRange
from mase_hw.graph.nodes import metadata, stream_operands, update
from mase_hw.graph.shapes import run_with
from mase_hw.passes.canonical.software_metadata import (
    add_software_metadata_analysis_pass,
    batch_inputs,
    batches_of,
)
from mase_hw.passes.formats.agreement import examples_in

# Of four examples in a row, the place of the one to compare on, and of the one to judge on.
STRIDE, COMPARED, JUDGED = 4, 1, 3
# Examples of a batch, at most: to observe ranges on, to fit weights to, to compare agreement on.
OBSERVED, FITTED, AGREED = 4096, 256, 512
# Examples whose extremes ranges are to hold, and the most by which these exceed what was seen.
TO_COME, FURTHER = 10_000, 2.0
# Blocks of examples whose extremes are looked at, and the fewest that tell a trend.
BLOCKS, FEWEST = 16, 4
# Of a Gumbel distribution: its scale over its standard deviation.
SCALE = math.sqrt(6) / math.pi

Batches = Sequence[Sequence[Tensor]]


@dataclass(frozen=True)
class Part:
    """Some of the samples.

    Attributes:
        batches: inputs by batch, as a caller of the graph gives them.
        examples: how many there are.
        labels: int64 `[examples]`; None without.
    """

    batches: Batches
    examples: int
    labels: Tensor | None = None

    def spread(self, mg: MaseGraph, most: int) -> Batches:
        """Return at most so many examples of each batch, evenly spread over it."""
        spread = []
        for inputs in self.batches:
            count = _count(mg, inputs)
            every = torch.arange(count) % -(-count // most) == 0
            whole = count <= most or mg.keeps_state
            spread.append(list(inputs) if whole else take(mg, inputs, every))
        return spread

    def labelled(self, labels: Tensor | None) -> Part:
        """Return the part with other labels, at least one for each example.

        Raises:
            DataError: for labels of another length.
        """
        if labels is not None and len(labels) != self.examples:
            raise DataError(
                f"there are {len(labels)} labels of {self.examples} examples; give one for each"
            )
        return replace(self, labels=labels)


@dataclass(frozen=True)
class Samples:
    """Samples by which formats are chosen. No sample to judge on is among them.

    Attributes:
        chosen_on: on which ranges and errors are measured, and weights fitted.
        compared_on: on which choices are compared, repaired and prepared.
    """

    chosen_on: Part
    compared_on: Part

    @classmethod
    def of(
        cls, mg: MaseGraph, data: Any = None, held_out: Any = None, labels: Any = None
    ) -> tuple[Samples, Part | None]:
        """Return samples to choose by, and the part to judge on.

        A `Split` has all three: to train on, to validate on, to test on. Otherwise `held_out` is
        judged on, and every fourth example of the data compared on; without it, a fourth of the
        examples each. The last is None where there are too few.

        Args:
            mg: a graph, whose example inputs are taken where there are no other data.
            data: a `Split`, or batches, see `add_software_metadata_analysis_pass`.
            held_out: batches.
            labels: classes of the examples of `held_out`, or of `data` without those.

        Raises:
            DataError: where nothing is left to compare on, or a number is none.
        """
        if isinstance(data, Split):
            split = Split.read(data)
            train = _part(mg, [split.train_inputs])
            held = _part(mg, [split.validation_inputs]).labelled(split.validation_labels)
            judged = _part(mg, [split.test_inputs]).labelled(split.test_labels)
            return cls(train, held), judged
        whole = _part(mg, [mg.example_inputs] if data is None else data)
        classes = None if labels is None else torch.as_tensor(labels)
        if held_out is not None:
            judged = _part(mg, held_out).labelled(classes)
            return cls(*_divided(mg, whole, (COMPARED,))), judged
        chosen, compared, *rest = _divided(mg, whole.labelled(classes), (COMPARED, JUDGED))
        return cls(chosen, compared), rest[0] if rest else None

    def spread(self, mg: MaseGraph, most: int = FITTED) -> Batches:
        """Return so many examples of each batch to choose on, evenly spread over it."""
        return self.chosen_on.spread(mg, most)

    def digest(self) -> list[float]:
        """Return numbers that tell whether two samples are the same."""
        return [float(item.double().sum()) for part in self.chosen_on.batches for item in part]


def take(mg: MaseGraph, inputs: Sequence[Tensor], places: Tensor | slice) -> list[Tensor]:
    """Return the examples at some places of a batch; what has no batch dimension as it is."""
    inside = mg.batch_dims.inside(inputs)
    count = examples_in(mg, inside)
    taken = [item[places] if item.dim() and len(item) == count else item for item in inside]
    return mg.batch_dims.outside(taken)


def chunks(mg: MaseGraph, batches: Batches, size: int) -> Iterator[list[Tensor]]:
    """Yield inputs with the batch first, `size` examples at a time; those of states by batch."""
    whole = not mg.batched or mg.keeps_state
    for inputs in batches:
        for start in range(0, 1 if whole else _count(mg, inputs), size):
            part = inputs if whole else take(mg, inputs, slice(start, start + size))
            yield mg.batch_dims.inside(part)


def _divided(mg: MaseGraph, whole: Part, places: Sequence[int]) -> list[Part]:
    """Return the rest of a part, and its examples at places of each `STRIDE`.

    Of fewer than `STRIDE` examples, the last one is the only other part.

    Raises:
        DataError: of a single example.
    """
    in_order = not mg.batched or mg.keeps_state
    numbers = torch.arange(len(whole.batches) if in_order else whole.examples)
    if len(numbers) < 2:
        raise DataError(
            "there is 1 example of data, of which none can be held out to check the formats on; "
            f"give {STRIDE} or more, better hundreds, as example inputs or as data"
        )
    masks = [numbers % STRIDE == place for place in places]
    if len(numbers) < STRIDE:
        masks = [numbers == len(numbers) - 1]
    masks = [~torch.stack(masks).any(0), *masks]
    if in_order:
        every = [[whole.batches[i] for i in numbers[mask].tolist()] for mask in masks]
        return [Part(batches, sum(_count(mg, x) for x in batches)) for batches in every]
    joined = [
        torch.cat(items, mg.batch_dims.of_input(number)) if items[0].dim() else items[0]
        for number, items in enumerate(zip(*whole.batches, strict=True))
    ]
    labels = [None if whole.labels is None else whole.labels[mask] for mask in masks]
    batches = [[take(mg, joined, mask)] for mask in masks]
    counts = [int(mask.sum()) for mask in masks]
    return [Part(*part) for part in zip(batches, counts, labels, strict=True)]


def _count(mg: MaseGraph, inputs: Sequence[Tensor]) -> int:
    return examples_in(mg, mg.batch_dims.inside(inputs))


def _part(mg: MaseGraph, data: Iterable[object]) -> Part:
    """Read batches.

    Raises:
        DataError: where they hold no example, or what is no finite number.
    """
    read = [batch_inputs(mg, batch) for batch in batches_of(data)]
    read = [inputs for inputs in read if all(item.numel() for item in inputs)]
    if not read:
        raise DataError("data holds no example; formats are chosen on examples like those to come")
    for inputs in read:
        for node, item in zip(mg.inputs, inputs, strict=True):
            if item.is_floating_point() and not bool(item.isfinite().all()):
                raise DataError(f"data for {node.target} holds infinities; give finite numbers")
    batches = [mg.batch_dims.outside(inputs) for inputs in read]
    return Part(batches, sum(examples_in(mg, inputs) for inputs in read))


def with_ranges(mg: MaseGraph, samples: Samples) -> MaseGraph:
    """Return a graph whose ranges hold on the samples, and likely on `TO_COME` like them.

    The extremes of blocks of examples follow a Gumbel distribution (1958), which tells how much
    further more examples reach: not at all where all blocks reach as far, as those of images do.
    """
    parts = [samples.chosen_on, samples.compared_on]
    batches = [inputs for part in parts for inputs in part.spread(mg, OBSERVED)]
    mg, _ = add_software_metadata_analysis_pass(mg, {"data": batches})
    lows, highs = defaultdict[Node, list[Tensor]](list), defaultdict[Node, list[Tensor]](list)
    count = 0

    def visit(node: Node, value: object) -> None:
        if not isinstance(value, Tensor) or not value.is_floating_point() or not value.numel():
            return
        rows = count if value.dim() and len(value) == count else 1
        finite = value.detach().nan_to_num(0.0, 0.0, 0.0).reshape(rows, -1)
        lows[node].append(-finite.amin(1))
        highs[node].append(finite.amax(1))

    states: dict[str, Tensor] = {}
    for inputs in batches:
        inside = mg.batch_dims.inside(inputs)
        count = examples_in(mg, inside)
        run_with(mg, inside, visit, states)
    for node in mg.nodes:
        software = metadata(node).software
        if software is None:
            continue
        ranges = dict(software.ranges)
        for name, source in {**dict(stream_operands(node)), "data_out_0": node}.items():
            if name in ranges and source in highs:
                ranges[name] = _reaching(
                    ranges[name], torch.cat(lows[source]), torch.cat(highs[source])
                )
        update(node, software=replace(software, ranges=ranges))
    return mg


def _reaching(seen: ValueRange, lows: Tensor, highs: Tensor) -> ValueRange:
    if not (math.isfinite(seen.minimum) and math.isfinite(seen.maximum)):
        return seen
    low, high = -_extreme(lows, -seen.minimum), _extreme(highs, seen.maximum)
    # A stream without a sign keeps none.
    low = max(low, 0.0) if seen.minimum >= 0 else low
    high = min(high, 0.0) if seen.maximum <= 0 else high
    return replace(seen, minimum=min(low, seen.minimum), maximum=max(high, seen.maximum))


def _extreme(values: Tensor, seen: float) -> float:
    """Return the largest value that is likely in `TO_COME` examples, of those of each one seen."""
    size = -(-len(values) // BLOCKS)
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(0))
    blocks = torch.stack([item.max() for item in torch.split(values[order].double(), size)])
    if len(blocks) < FEWEST or size >= TO_COME:
        return seen
    reach = float(blocks.mean() + SCALE * blocks.std() * math.log(TO_COME / size))
    return min(reach, seen + (FURTHER - 1) * abs(seen))
