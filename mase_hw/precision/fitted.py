"""Formats that are chosen, with figures on samples that no choice depends on, and their limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.precision.cost import Lanes
from mase_hw.precision.evaluation import Figures, Goal, Result, Row
from mase_hw.precision.figures import FEWEST, PERCENT, resolved_share, samples_for
from mase_hw.precision.preparations import OF_WEIGHTS
from mase_hw.precision.samples import STRIDE, Part


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
        goal: the bounds.
        result: the configuration, its cost, and its figures on samples to judge on.
        front: other configurations that were run: on the way, and uniform ones; likewise.
        float_accuracy: of the float model; None without labels.
        examples: that were judged on.
        parallelism: of the hardware whose cost counted.
        tried: preparations.
        changed: that of the graph before it got formats; empty for none.
        trained: whether weights were trained in the formats.
        notes: limits of the figures, or that the goal is missed.
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
        changed = not OF_WEIGHTS.keys().isdisjoint(self.result.steps)
        return self.trained or bool(self.changed) or changed

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

    def judged(self, mg: MaseGraph, compared_on: Part, judged_on: Part | None) -> Fitted:
        """Return the formats with their figures on all samples to judge on.

        Without any, they are judged on those of the present figures.
        """
        part = compared_on if judged_on is None else judged_on
        figures = Figures(mg, part)

        def on(result: Result) -> Result:
            return figures.whole(figures.of(replace(result, compared=result)))

        result = on(self.result)
        return replace(
            self,
            result=result,
            front=[on(item) for item in self.front],
            float_accuracy=figures.float_accuracy,
            examples=part.examples,
            notes=[*_few(compared_on, judged_on, self.goal), *_missed(result, self.goal)],
            judge=on,
        )


def _few(compared_on: Part, judged_on: Part | None, goal: Goal) -> Iterator[str]:
    part = compared_on if judged_on is None else judged_on
    if judged_on is None:
        yield (
            f"too few samples for three parts, which take {STRIDE} or more: the figures are of "
            "the samples on which choices were compared"
        )
    if goal.min_sqnr is not None and part.examples < FEWEST:
        yield f"{part.examples} examples are too few to tell how sure the decibels are"
    if goal.max_drop is None:
        return
    if judged_on is not None and judged_on.labels is not None and compared_on.labels is None:
        yield (
            "choices were compared by the classes of the float model, as the samples to compare on "
            "have no labels; a mase_hw.data.Split as data has them"
        )
    fewest = min(compared_on.examples, part.examples)
    least = PERCENT * resolved_share(fewest)
    if 0 < goal.max_drop < least:
        yield (
            f"max_drop {goal.max_drop:g} is less than the {least:.2f} points that {fewest} samples "
            f"tell from none; it takes {samples_for(goal.max_drop / PERCENT)} to compare on and to "
            "judge on"
        )


def _missed(result: Result, goal: Goal) -> Iterator[str]:
    if goal.min_sqnr is not None and result.sqnr_db < goal.min_sqnr:
        kept = math.inf if result.compared is None else result.compared.sqnr_db
        yield (
            f"min_sqnr {goal.min_sqnr:g} is missed: it held on the samples that choices were "
            f"compared on ({kept:.1f} dB), and does not on others; give more samples"
        )
    elif goal.min_sqnr is not None and result.assured_db < goal.min_sqnr:
        yield (
            f"so few samples do not tell whether min_sqnr {goal.min_sqnr:g} holds: "
            f"it may be {result.assured_db:.1f} dB"
        )
    if goal.max_drop is not None and result.drop is not None and result.drop > goal.max_drop:
        yield (
            f"max_drop {goal.max_drop:g} is missed: it held on the samples that choices were "
            "compared on, and does not on others; give more samples, or ask for less"
        )
