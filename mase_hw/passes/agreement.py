"""`measure_agreement_analysis_pass`: how far a quantised graph is from the model in real numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph, batch_size
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.software_metadata import batch_inputs


@dataclass
class Sums:
    """Running sums of the results of one node, exact and rounded.

    Attributes:
        signal: sum of squares of the exact values.
        noise: sum of squares of the errors.
        equal: elements that are equal, of results that are no reals.
        elements: elements of these.
    """

    signal: float = 0.0
    noise: float = 0.0
    equal: int = 0
    elements: int = 0

    def add(self, exact: Tensor, rounded: Tensor) -> None:
        """Add results of one batch."""
        if not exact.is_floating_point():
            self.equal += int((exact == rounded).sum())
            self.elements += exact.numel()
            return
        signal, noise = _norm(exact), _norm(exact - rounded)
        if not (math.isfinite(signal + noise) and signal):
            finite = exact.isfinite()
            kept = exact[finite].double()
            signal, noise = _norm(kept), _norm(kept - rounded[finite].double())
        self.signal += signal
        self.noise += noise

    @property
    def sqnr_db(self) -> float:
        """Signal over noise in decibels, infinite where nothing was lost."""
        if self.noise == 0.0:
            return math.inf
        return 10.0 * math.log10(self.signal / self.noise) if self.signal else -math.inf


def _norm(values: Tensor) -> float:
    """Return the sum of squares, in binary64."""
    return float(torch.linalg.vector_norm(values)) ** 2


@dataclass
class Clipped:
    """Elements that a format clips, and all."""

    clipped: int = 0
    elements: int = 0


class CountingRun(GraphRun):
    """A run that counts what formats clip."""

    def __init__(self, mg: MaseGraph) -> None:
        super().__init__(mg)
        self.clipped: dict[tuple[str, str], Clipped] = defaultdict(Clipped)

    def _rounded(
        self, node: Node, name: str, number_format: Format | None, values: Tensor
    ) -> Tensor:
        if number_format is not None and not number_format.sparse and values.is_floating_point():
            count = self.clipped[node.name, name]
            count.elements += values.numel()
            count.clipped += number_format.clipped(values)
        return super()._rounded(node, name, number_format, values)


def measure(mg: MaseGraph, data: Iterable[Any]):
    exact, rounded = GraphRun(mg, only=()), CountingRun(mg)
    sums: dict[str, Sums] = defaultdict(Sums)
    nodes = [node for node in mg.nodes if node.op not in ("get_attr", "output")]
    place = {node: i for i, node in enumerate(nodes)}
    dead: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        dead[max((place.get(user, 0) for user in node.users), default=0) if node.users else place[node]].append(node)
    examples = 0
    with torch.no_grad():
        for batch in data:
            inputs = batch_inputs(mg, batch)
            examples += (batch_size(inputs) or 1) if mg.batched else 1
            given = iter(inputs)
            left: dict[Node, Tensor] = {}
            right: dict[Node, Tensor] = {}
            for number, node in enumerate(nodes):
                value = next(given) if node.op == "placeholder" else None
                left[node] = exact.step(node, left, value)
                right[node] = rounded.step(node, right, value)
                if isinstance(left[node], Tensor):
                    sums[node.name].add(left[node], right[node])
                for item in dead[number]:
                    left.pop(item, None)
                    right.pop(item, None)
    return sums, rounded.clipped, examples
