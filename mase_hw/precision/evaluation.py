"""Goals, and the agreement, accuracy and cost of configurations beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

from torch import Tensor

from mase_hw.errors import ConfigError
from mase_hw.graph.agreement import Closeness
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.hardware.estimate import Estimate
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.precision.cost import Lanes, cost_of, costs_of, with_lanes
from mase_hw.precision.figures import DIGITS, PERCENT, SURE, Interval, Judge, Scored, Scorer
from mase_hw.precision.preparations import STEPS, Formats
from mase_hw.precision.samples import AGREED, Batches, Part, Samples
from mase_hw.precision.space import is_real_result


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
        opened: the configuration without what follows from observed values.
        graph: the quantised graph.
        cost: of all nodes, without queues.
        costs: by name of the node.
        steps: names of the preparations that changed weights or ranges.
        outputs: agreement by name of the output.
        intervals: 95 % intervals of agreement by name of the output, see `Judged`.
        noise: likewise.
        drop: points of accuracy lost, or the percentage of elements that differ where outputs are
            no reals; None without either.
        accuracy: of the quantised graph; None without labels.
        scored: its accuracy; None without labels.
        compared: the same on the samples by which it was chosen, where the figures are of others.
        rows: its operands; of a uniform format where it is the one that was chosen.
    """

    name: str
    config: Mapping[str, object]
    opened: Mapping[str, object]
    graph: MaseGraph
    cost: Estimate
    costs: Mapping[str, Estimate]
    steps: Sequence[str] = ()
    outputs: Mapping[str, Closeness] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    noise: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    drop: float | None = None
    accuracy: float | None = None
    scored: Scored | None = None
    compared: Result | None = None
    rows: Sequence[Row] = ()

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
        entry: dict[str, object] = {
            "name": self.name,
            "outputs": {name: item.to_dict() for name, item in self.outputs.items()},
            "drop": self.drop,
            "accuracy": self.accuracy,
            "examples": 0 if self.scored is None else len(self.scored.right),
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
        }
        if self.scored is not None:
            entry["accuracy_interval"] = list(self.scored.interval)
            entry["drop_interval"] = list(self.scored.drop_interval)
        resources = {name: getattr(self.cost, name) for name in ("dsp", "bram", "memory_bits")}
        return entry | {"lut": round(self.cost.lut), **resources}


@dataclass(frozen=True)
class Goal:
    """A bound on what is lost, on what the hardware takes, or on both.

    Attributes:
        min_sqnr: signal over error against the float model that every output keeps, decibels.
        max_drop: points of accuracy that are lost at most, or of outputs that are no reals the
            percentage of elements that may differ from the float model's.
        max_lut: look-up tables of all nodes, at most.
        max_bram: block RAMs of all nodes, at most.

    Raises:
        ConfigError: when nothing is asked, or what no model keeps.
    """

    min_sqnr: float | None = None
    max_drop: float | None = None
    max_lut: float | None = None
    max_bram: float | None = None

    def __post_init__(self) -> None:
        if not self._bounds:
            raise ConfigError(
                "nothing is asked of the formats; give min_sqnr (decibels) or max_drop (points of "
                "accuracy) for the least hardware, or max_lut or max_bram for the best agreement"
            )
        for name, value in self._bounds.items():
            least = -math.inf if name == "min_sqnr" else 0.0
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and least <= value < math.inf):
                legal = "a number" if name == "min_sqnr" else "a number from 0"
                raise ConfigError(f"{name} is {value!r}; allowed: {legal}")
        if self.min_sqnr is not None and self.max_drop is not None:
            raise ConfigError("min_sqnr and max_drop both say what may be lost; give one of them")

    @property
    def _bounds(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def budgets(self) -> dict[str, float]:
        """The most of each resource, by its name."""
        bounds = self._bounds.items()
        return {key.removeprefix("max_"): v for key, v in bounds if key in ("max_lut", "max_bram")}

    @property
    def bounds_loss(self) -> bool:
        """Whether it says how much may be lost."""
        return self.min_sqnr is not None or self.max_drop is not None

    def holds(self, result: Result) -> bool:
        """Return true for a result within all bounds, as far as its samples tell."""
        lost = self.max_drop is not None and result.assured_drop > self.max_drop
        noisy = self.min_sqnr is not None and result.assured_db < self.min_sqnr
        return not (lost or noisy or result.cost.beyond(self.budgets))

    def __str__(self) -> str:
        """Return `min_sqnr 30`, for messages."""
        return ", ".join(f"{name} {value:g}" for name, value in self._bounds.items())


class Figures:
    """Agreement and accuracy on a part of the samples.

    Args:
        mg: a canonical graph without formats.
        part: the samples.
        batches: inputs on which agreement is measured; all of the part without.
        limit: see `Scorer`; where it is set and there are no labels, the classes of the float model
            stand in for them.
    """

    def __init__(
        self, mg: MaseGraph, part: Part, batches: Batches | None = None, limit: float | None = None
    ) -> None:
        self._judge = Judge(mg, part.batches if batches is None else batches)
        stands_in = limit is not None and all(map(is_real_result, mg.outputs))
        labelled = part.labels is not None or stands_in
        self._scorer = Scorer(mg, part, limit) if labelled else None

    @property
    def float_accuracy(self) -> float | None:
        """That of the float model; None without classes."""
        return None if self._scorer is None else self._scorer.accuracy

    def of(self, result: Result) -> Result:
        """Return a result with its figures, of accuracy on as many samples as its bound needs."""
        result = replace(result, scored=None, **vars(self._judge.of(result.graph)))
        if self._scorer is not None:
            return self._scored(result, self._scorer)
        equal = [item.equal for item in result.outputs.values() if item.equal is not None]
        drop = round(PERCENT * (1.0 - min(equal)), DIGITS) if equal else None
        return replace(result, drop=drop, accuracy=None)

    def whole(self, result: Result) -> Result:
        """Return a result with its accuracy on all samples."""
        scorer, scored = self._scorer, result.scored
        if scorer is None or scored is None or len(scored.right) == scorer.examples:
            return result
        return self._scored(result, scorer)

    @staticmethod
    def _scored(result: Result, scorer: Scorer) -> Result:
        scored = scorer.of(result.graph, result.scored)
        return replace(result, accuracy=scored.accuracy, drop=scored.drop, scored=scored)


class Evaluator:
    """Runs configurations of one graph.

    Args:
        mg: a canonical graph with observed ranges.
        samples: to compare on, and to fit weights and ranges to.
        parallelism: of the hardware whose cost is asked.
        limit: points of accuracy that may be lost; None where that is not asked.
    """

    def __init__(
        self, mg: MaseGraph, samples: Samples, parallelism: Lanes, limit: float | None = None
    ) -> None:
        self._mg, self._parallelism = mg, parallelism
        self._fitted_to = samples.spread(mg)
        self._steps: Sequence[str] = ()
        compared = samples.compared_on
        self.figures = Figures(mg, compared, compared.spread(mg, AGREED), limit)

    def changed(
        self, steps: Sequence[str] | None = None, parallelism: Lanes | None = None
    ) -> Evaluator:
        """Return one with other steps of preparation, or for hardware of another parallelism."""
        evaluator = copy(self)
        evaluator._steps = self._steps if steps is None else tuple(steps)
        evaluator._parallelism = self._parallelism if parallelism is None else parallelism
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
        """Run a configuration, which is `opened` without fields fitted to observed values.

        Raises:
            UnsupportedError: where it has no hardware.
        """
        opened = config if opened is None else opened
        formats = Formats(self._mg, config, opened, self.quantized(config), self._fitted_to)
        for step in self._steps:
            formats = STEPS[step](formats)
        costs = costs_of(with_lanes(formats.graph, self._parallelism))
        cost = reduce(add, costs.values(), Estimate())
        return self.figures.of(
            Result(name, formats.config, opened, formats.graph, cost, costs, self._steps)
        )
