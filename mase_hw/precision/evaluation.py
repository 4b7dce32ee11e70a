"""What a configuration keeps of a model on held-out samples, and what its hardware takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

from mase_hw.errors import UnsupportedError
from mase_hw.graph.agreement import Closeness
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.passes.formats.agreement import measure_agreement_analysis_pass
from mase_hw.passes.formats.expected_agreement import model_agreement
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.precision.accuracy import DIGITS, PERCENT, Scored, Scorer
from mase_hw.precision.cost import Cost, Lanes, cost_of, costs_of, with_lanes
from mase_hw.precision.preparations import STEPS, Formats
from mase_hw.precision.samples import Samples


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
        scored: its accuracy; None without labels.
        costs: by name of the node.
        cost: of all nodes, without queues.
        graph: the quantised graph.
        opened: the configuration without what follows from observed values.
        steps: names of the preparations that changed weights or ranges.
        rows: its operands; none of a uniform configuration.
    """

    name: str
    config: Mapping[str, object]
    outputs: Mapping[str, Closeness]
    drop: float | None
    accuracy: float | None
    cost: Cost
    graph: MaseGraph
    opened: Mapping[str, object]
    steps: Sequence[str] = ()
    rows: Sequence[Row] = ()
    scored: Scored | None = None
    costs: Mapping[str, Cost] = field(default_factory=dict)

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
            "examples": 0 if self.scored is None else len(self.scored.right),
            **self.cost.to_dict(),
        }


class Evaluator:
    """Runs configurations of one graph.

    Args:
        mg: a canonical graph with observed ranges.
        samples: of which those held out are run.
        parallelism: of the hardware whose cost is asked.
        limit: points of accuracy that may be lost; None where that is not asked.
    """

    def __init__(
        self,
        mg: MaseGraph,
        samples: Samples,
        parallelism: Lanes,
        limit: float | None = None,
    ) -> None:
        self._mg, self._samples, self._parallelism = mg, samples, parallelism
        self._fitted_to = samples.spread(mg)
        self._steps: Sequence[str] = ()
        labels = samples.labels
        self._scorer = None if labels is None else Scorer(mg, samples, labels, limit)

    @property
    def accuracy(self) -> float | None:
        """That of the float model; None without labels."""
        return None if self._scorer is None else self._scorer.accuracy

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

    def takes(self, config: Mapping[str, object]) -> float:
        """Return the weighed cost of a configuration, before steps of preparation.

        Raises:
            UnsupportedError: where it has no hardware.
        """
        return cost_of(with_lanes(self.quantized(config), self._parallelism)).weighed

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
        formats = Formats(self._mg, config, opened, self.quantized(config), self._fitted_to)
        for step in self._steps:
            formats = STEPS[step](formats)
        config, mg = formats.config, formats.graph
        costs = costs_of(with_lanes(mg, self._parallelism))
        cost = reduce(add, costs.values(), Cost())
        # The weights of the float model in what has its own now.
        reference = self.quantized(config) if self._steps else None
        given = {"data": self._samples.held_out, "reference": reference}
        mg, _ = measure_agreement_analysis_pass(mg, given)
        found = model_agreement(mg)
        if found is None:
            raise UnsupportedError(f"{mg.name} has no output that a format changes")
        result = Result(
            name,
            config,
            found.outputs,
            None,
            None,
            cost,
            mg,
            opened,
            tuple(self._steps),
            costs=costs,
        )
        return self._scored(result)

    def whole(self, result: Result) -> Result:
        """Return a result with its accuracy on all held-out samples."""
        if self._scorer is None or result.scored is None:
            return result
        if len(result.scored.right) == self._scorer.examples:
            return result
        return self._scored(result)

    def _scored(self, result: Result) -> Result:
        """Return a result with what is lost: of classes, once more of all, or of other elements."""
        if self._scorer is not None:
            found = self._scorer.of(result.graph, result.scored)
            return replace(result, accuracy=found.accuracy, drop=found.drop, scored=found)
        equal = [item.equal for item in result.outputs.values() if item.equal is not None]
        drop = round(PERCENT * (1.0 - min(equal)), DIGITS) if equal else None
        return replace(result, drop=drop)
