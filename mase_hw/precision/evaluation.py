"""Agreement, accuracy and cost of configurations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

from torch import Tensor

from mase_hw.graph.agreement import Closeness
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.hardware.estimate import Estimate
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.precision.accuracy import DIGITS, PERCENT, SURE, Scored, Scorer
from mase_hw.precision.cost import Lanes, cost_of, costs_of, with_lanes
from mase_hw.precision.interval import Interval
from mase_hw.precision.judging import Judge
from mase_hw.precision.operands import is_real_result
from mase_hw.precision.preparations import STEPS, Formats
from mase_hw.precision.samples import AGREED, Samples


@dataclass(frozen=True)
class Row:
    """One operand of a choice.

    Attributes:
        node: its node.
        operand: its name.
        format: as text.
        bits: of an element.
        noise_share: of the predicted error of the outputs; None of a uniform format.
        cost_share: of the node's weighed cost in that of all, at the node's first operand.
    """

    node: str
    operand: str
    format: str
    bits: float
    noise_share: float | None
    cost_share: float | None


@dataclass(frozen=True)
class Result:
    """One configuration, run.

    Attributes:
        name: in a figure.
        config: the configuration.
        outputs: agreement by name of the output.
        drop: points of accuracy lost, or the percentage of elements that differ where outputs are
            no reals; None without either.
        accuracy: of the quantised graph; None without labels.
        intervals: 95 % intervals of agreement by name of the output, see `Judged`.
        noise: likewise.
        scored: its accuracy; None without labels.
        compared: the same on the samples by which it was chosen, where the figures are of others.
        costs: by name of the node.
        cost: of all nodes, without queues.
        graph: the quantised graph.
        opened: the configuration without what follows from observed values.
        steps: names of the preparations that changed weights or ranges.
        rows: its operands; of a uniform format where it is the one that was chosen.
    """

    name: str
    config: Mapping[str, object]
    outputs: Mapping[str, Closeness]
    drop: float | None
    accuracy: float | None
    cost: Estimate
    graph: MaseGraph
    opened: Mapping[str, object]
    steps: Sequence[str] = ()
    rows: Sequence[Row] = ()
    scored: Scored | None = None
    costs: Mapping[str, Estimate] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    compared: Result | None = None
    noise: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def sqnr_db(self) -> float:
        """The least signal over error of the real outputs; infinite where none is real."""
        ratios = [item.sqnr_db for item in self.outputs.values() if item.sqnr_db is not None]
        return min(ratios, default=math.inf)

    @property
    def assured_drop(self) -> float:
        """The drop, and `SURE` standard errors more; infinite without one."""
        if self.drop is None:
            return math.inf
        return self.drop + (0.0 if self.scored is None else SURE * self.scored.drop_error)

    @property
    def assured_db(self) -> float:
        """The lower end of its interval, itself where there is none."""
        return min((self.assured(name) for name in self.outputs), default=math.inf)

    def assured(self, name: str) -> float:
        """Return the lower end of an output's interval; infinite where it is not real."""
        ratio = self.outputs[name].sqnr_db
        if ratio is None:
            return math.inf
        return self.intervals[name][0] if name in self.intervals else ratio

    def to_dict(self) -> dict[str, object]:
        """Return the fields as values of JSON."""
        return {
            "name": self.name,
            "outputs": {name: item.to_dict() for name, item in self.outputs.items()},
            "drop": self.drop,
            "accuracy": self.accuracy,
            "examples": 0 if self.scored is None else len(self.scored.right),
            **self._intervals(),
            "lut": round(self.cost.lut),
            **{name: getattr(self.cost, name) for name in ("dsp", "bram", "memory_bits")},
        }

    def _intervals(self) -> dict[str, object]:
        ends = {name: list(interval) for name, interval in self.intervals.items()}
        entry: dict[str, object] = {"intervals": ends}
        if self.scored is not None:
            entry["accuracy_interval"] = list(self.scored.interval)
            entry["drop_interval"] = list(self.scored.drop_interval)
        return entry


class Evaluator:
    """Runs configurations of one graph.

    Args:
        mg: a canonical graph with observed ranges.
        samples: to compare on, and to fit weights and ranges to.
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
        self._mg, self._parallelism = mg, parallelism
        self._fitted_to = samples.spread(mg)
        self._steps: Sequence[str] = ()
        compared = samples.compared_on
        self._judge = Judge(mg, compared.spread(mg, AGREED))
        # Where classes are not told, those of the float model stand in.
        stands_in = limit is not None and all(map(is_real_result, mg.outputs))
        labelled = compared.labels is not None or stands_in
        self._scorer = Scorer(mg, compared, limit) if labelled else None

    def with_steps(self, steps: Sequence[str]) -> Evaluator:
        """Return one that prepares graphs in their formats."""
        evaluator = copy(self)
        evaluator._steps = tuple(steps)
        return evaluator

    def at(self, lanes: Lanes) -> Evaluator:
        """Return one for hardware of another parallelism."""
        evaluator = copy(self)
        evaluator._parallelism = lanes
        return evaluator

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
        """Run a configuration.

        Args:
            name: of the result.
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
        cost = reduce(add, costs.values(), Estimate())
        return measured(
            Result(name, config, {}, None, None, cost, mg, opened, self._steps, costs=costs),
            self._judge,
            self._scorer,
        )

    def whole(self, result: Result) -> Result:
        """Return a result with its accuracy on all held-out samples."""
        return whole(result, self._scorer)


def measured(result: Result, judge: Judge, scorer: Scorer | None) -> Result:
    """Return a result with what its graph keeps of the samples of a judge and a scorer."""
    judged = judge.of(result.graph)
    result = replace(result, **vars(judged))
    return _scored(result, scorer)


def whole(result: Result, scorer: Scorer | None) -> Result:
    """Return a result with its accuracy on all samples."""
    if scorer is None or result.scored is None or len(result.scored.right) == scorer.examples:
        return result
    return _scored(result, scorer)


def _scored(result: Result, scorer: Scorer | None) -> Result:
    if scorer is not None:
        scored = scorer.of(result.graph, result.scored)
        return replace(result, accuracy=scored.accuracy, drop=scored.drop, scored=scored)
    equal = [item.equal for item in result.outputs.values() if item.equal is not None]
    drop = round(PERCENT * (1.0 - min(equal)), DIGITS) if equal else None
    return replace(result, drop=drop)
