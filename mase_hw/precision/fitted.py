"""Result of a choice of formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.precision.cost import Lanes
from mase_hw.precision.evaluation import Result, Row
from mase_hw.precision.goal import Goal
from mase_hw.precision.preparations import OF_WEIGHTS


@dataclass(frozen=True)
class Tried:
    """A preparation that was tried.

    Attributes:
        name: of the preparation.
        gain_db: signal over error that it gains at the same formats.
        kept: whether the chosen formats need it.
    """

    name: str
    gain_db: float
    kept: bool = False


@dataclass(frozen=True)
class Fitted:
    """Chosen formats.

    Attributes:
        name: of the model.
        goal: what was asked.
        result: the configuration, its cost, and what it keeps on samples to judge on.
        front: other configurations that were run: on the way, and uniform ones; likewise.
        float_accuracy: of the float model; None without labels.
        examples: that were judged on.
        parallelism: of the hardware whose cost counted.
        tried: preparations.
        changed: that of the graph before it got formats; empty for none.
        trained: whether weights were trained in the formats.
        notes: what the figures do not tell, or that the goal is missed.
        judge: returns a result with its figures on the samples to judge on.
    """

    name: str
    goal: Goal
    result: Result
    front: Sequence[Result]
    float_accuracy: float | None = None
    examples: int = 0
    parallelism: Lanes = 1
    tried: Sequence[Tried] = ()
    changed: str = ""
    trained: bool = False
    notes: Sequence[str] = ()
    judge: Callable[[Result], Result] = field(default=lambda item: item, repr=False, compare=False)

    @property
    def has_own_weights(self) -> bool:
        """Whether the formats go with other weights, or other nodes, than those of the model."""
        return self.trained or bool(self.changed) or not OF_WEIGHTS.keys().isdisjoint(self.steps)

    @property
    def steps(self) -> Sequence[str]:
        """The preparations of the graph in its formats."""
        return self.result.steps

    @property
    def config(self) -> Mapping[str, object]:
        """The configuration that `emit-verilog` takes."""
        return self.result.config

    @property
    def rows(self) -> Sequence[Row]:
        """The operands of the configuration, one a row."""
        return self.result.rows

    @property
    def graph(self) -> MaseGraph:
        """The graph in the fitted formats."""
        return self.result.graph

    def keeps(self, result: Result) -> bool:
        """Return true for a result of the front that keeps the goal."""
        return self.goal.holds(result.compared or result)
