"""What a configuration keeps of a model on held-out samples, and what its hardware takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import DataError, UnsupportedError
from mase_hw.graph.agreement import Closeness
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.passes.formats.agreement import measure_agreement_analysis_pass
from mase_hw.passes.formats.expected_agreement import model_agreement
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.precision.cost import Cost, Lanes, cost_of, with_lanes
from mase_hw.precision.preparations import STEPS, Formats
from mase_hw.precision.samples import Samples
from mase_hw.training import scores_of

# Samples that are run at a time.
BATCH = 256
PERCENT = 100.0
# Of a loss in points, which floats do not hold exactly.
DIGITS = 9


@dataclass(frozen=True)
class Row:
    """One operand of a choice.

    Attributes:
        node: its node.
        operand: its name.
        format: as text.
        bits: of an element.
        noise_share: of the predicted error of the outputs.
        cost_share: of the node's weighed cost in that of all, at the node's first operand.
    """

    node: str
    operand: str
    format: str
    bits: float
    noise_share: float
    cost_share: float | None


@dataclass(frozen=True)
class Result:
    """One configuration, run.

    Attributes:
        name: what it is called in a figure.
        config: the configuration.
        outputs: agreement by name of the output.
        drop: points of accuracy lost, or the percentage of elements that differ where outputs are
            no reals; None where neither is known.
        accuracy: of the quantised graph; None without labels.
        cost: of all nodes, without queues.
        graph: the quantised graph.
        opened: the configuration without what follows from observed values.
        steps: names of the preparations that changed weights or ranges.
        rows: its operands; none of a uniform configuration.
    """

    name: str
    config: Mapping[str, Any]
    outputs: Mapping[str, Closeness]
    drop: float | None
    accuracy: float | None
    cost: Cost
    graph: MaseGraph
    opened: Mapping[str, Any]
    steps: Sequence[str] = ()
    rows: Sequence[Row] = ()

    @property
    def sqnr_db(self) -> float:
        """The least signal over error of the real outputs; infinite where none is real."""
        known = [item.sqnr_db for item in self.outputs.values() if item.sqnr_db is not None]
        return min(known, default=math.inf)

    def to_dict(self) -> dict[str, object]:
        """Return the fields as values of JSON."""
        return {
            "name": self.name,
            "outputs": {name: item.to_dict() for name, item in self.outputs.items()},
            "drop": self.drop,
            "accuracy": self.accuracy,
            **self.cost.to_dict(),
        }


class Evaluator:
    """Runs configurations of one graph.

    Args:
        mg: a canonical graph with observed ranges.
        samples: of which those held out are run.
        parallelism: of the hardware whose cost is asked.
        steps: names of what is done to a graph in its formats, see `STEPS`.
    """

    def __init__(
        self,
        mg: MaseGraph,
        samples: Samples,
        parallelism: Lanes,
        steps: Sequence[str] = (),
    ) -> None:
        self._mg, self._samples, self._parallelism = mg, samples, parallelism
        self._steps = steps
        self.accuracy = self._accuracy(mg)

    def with_steps(self, steps: Sequence[str]) -> Evaluator:
        """Return one that prepares graphs in their formats."""
        found = copy(self)
        found._steps = tuple(steps)
        return found

    def at(self, lanes: Lanes) -> Evaluator:
        """Return one for hardware of another parallelism."""
        found = copy(self)
        found._parallelism = lanes
        return found

    def quantized(self, config: Mapping[str, object]) -> MaseGraph:
        """Return the graph in a configuration."""
        return quantize_transform_pass(self._mg, config)[0]

    def run(
        self, name: str, config: Mapping[str, object], opened: Mapping[str, object] | None = None
    ) -> Result:
        """Return what a configuration gives.

        Args:
            name: what it is called in a figure.
            config: the configuration.
            opened: the same without what follows from observed values.

        Raises:
            UnsupportedError: where it has no hardware.
        """
        opened = config if opened is None else opened
        formats = Formats(self._mg, config, opened, self.quantized(config), self._samples.chosen_on)
        for step in self._steps:
            formats = STEPS[step](formats)
        config, mg = formats.config, formats.graph
        cost = cost_of(with_lanes(mg, self._parallelism))
        # The weights of the float model in what has its own now.
        reference = self.quantized(config) if self._steps else None
        given = {"data": self._samples.held_out, "reference": reference}
        mg, _ = measure_agreement_analysis_pass(mg, given)
        found = model_agreement(mg)
        if found is None:
            raise UnsupportedError(f"{mg.name} has no output that a format changes")
        accuracy = self._accuracy(mg)
        drop = self._drop(found.outputs, accuracy)
        return Result(
            name, config, found.outputs, drop, accuracy, cost, mg, opened, tuple(self._steps)
        )

    def _drop(self, outputs: Mapping[str, Closeness], accuracy: float | None) -> float | None:
        if accuracy is not None and self.accuracy is not None:
            lost = self.accuracy - accuracy
        else:
            equal = [item.equal for item in outputs.values() if item.equal is not None]
            if not equal:
                return None
            lost = 1.0 - min(equal)
        # Shares of counts: 2 of 100 samples are 2 points, as whoever asks for 2 says.
        return round(PERCENT * lost, DIGITS)

    def _accuracy(self, mg: MaseGraph) -> float | None:
        labels = self._samples.labels
        if labels is None:
            return None
        mg.eval()
        with torch.no_grad():
            classes = torch.cat([_classes(mg, part) for part in self._parts()])
        if classes.shape != labels.shape:
            raise DataError(
                f"labels have the shape {tuple(labels.shape)} and the classes that {mg.name} finds "
                f"{tuple(classes.shape)}; give one label an example"
            )
        return float((classes == labels).double().mean())

    def _parts(self) -> list[list[Tensor]]:
        (inputs,) = self._samples.held_out if len(self._samples.held_out) == 1 else (None,)
        if inputs is None:
            return [list(part) for part in self._samples.held_out]
        return [
            list(part) for part in zip(*(torch.split(item, BATCH) for item in inputs), strict=True)
        ]


def _classes(mg: MaseGraph, inputs: list[Tensor]) -> Tensor:
    scores = scores_of(mg(*inputs))
    if not scores.is_floating_point():
        return scores.reshape(-1)
    return scores.reshape(len(scores), -1).argmax(1)
