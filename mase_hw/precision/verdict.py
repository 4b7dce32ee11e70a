"""Figures of formats on samples that no choice depends on, and their limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.precision.accuracy import PERCENT, Scorer
from mase_hw.precision.evaluation import Result, measured, whole
from mase_hw.precision.fitted import Fitted
from mase_hw.precision.goal import Goal
from mase_hw.precision.interval import resolved_share, samples_for
from mase_hw.precision.judging import FEWEST, Judge
from mase_hw.precision.samples import STRIDE, Part


def judged(mg: MaseGraph, fitted: Fitted, compared_on: Part, judged_on: Part | None) -> Fitted:
    """Return formats with their figures on samples to judge on, all of them.

    Args:
        mg: the canonical graph without formats.
        fitted: formats, with figures on the samples that they were compared on.
        compared_on: those samples, which are judged on where there are no others.
        judged_on: samples to judge on.
    """
    part = compared_on if judged_on is None else judged_on
    judge, scorer = Judge(mg, part.batches), None if part.labels is None else Scorer(mg, part)

    def on(result: Result) -> Result:
        bare = replace(result, accuracy=None, drop=None, scored=None, compared=result)
        return whole(measured(bare, judge, scorer), scorer)

    result = on(fitted.result)
    return replace(
        fitted,
        result=result,
        front=[on(item) for item in fitted.front],
        float_accuracy=None if scorer is None else scorer.accuracy,
        examples=part.examples,
        notes=[*_few(compared_on, judged_on, fitted.goal), *_missed(result, fitted.goal)],
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
    least = PERCENT * resolved_share(min(compared_on.examples, part.examples))
    if 0 < goal.max_drop < least:
        needed = samples_for(goal.max_drop / PERCENT)
        yield (
            f"max_drop {goal.max_drop:g} is less than the {least:.2f} points that "
            f"{min(compared_on.examples, part.examples)} samples tell from none; it takes {needed} "
            "to compare on and to judge on"
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
