"""Preparation is tried at the chosen formats, and kept where cheaper ones do with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from mase_hw._stages import stage
from mase_hw.errors import MaseError
from mase_hw.formats import DEFAULT_FORMAT
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.precision.configuration import uniform
from mase_hw.precision.cost import Lanes
from mase_hw.precision.evaluation import Evaluator, Result
from mase_hw.precision.fitted import Fitted, Tried
from mase_hw.precision.fitting import Fitting
from mase_hw.precision.preparations import CHANGES, NARROW, OF_RANGES, STEPS
from mase_hw.precision.ranges import with_ranges
from mase_hw.precision.samples import Samples

_LOG = logging.getLogger(__name__)
# Decibels that a preparation has to gain at the same formats, to be followed.
LEAST_DB = 0.5
# What a step may take more, as where sums of other weights are a bit wider, and what formats that
# need a preparation have to take, of those without.
MORE, LESS = 1.01, 0.99


def prepared(fitting: Fitting, fitted: Fitted) -> Fitted:
    """Return formats whose graphs are prepared, where those keep the goal for less.

    Args:
        fitting: the choice.
        fitted: its result.
    """
    best, kept, tried = fitted.result, list[str](), list[Tried]()
    few = fitting.compares_few
    for name in (item for item in STEPS if not (few and item in OF_RANGES)):
        stage(name)
        try:
            result = fitting.prepared(fitted.result, [*kept, name])
        except MaseError as error:
            _LOG.debug("%s is left out: %s", name, error)
            continue
        gain = result.sqnr_db - best.sqnr_db
        tried.append(Tried(name, gain))
        if gain >= LEAST_DB and result.cost.weighed <= MORE * fitted.result.cost.weighed:
            kept.append(name)
            best = result
    if not kept:
        return replace(fitted, tried=tried)
    again = replace(fitted, result=best)
    if fitted.goal.bounds_loss:
        try:
            again = fitting.again(kept)
        except MaseError as error:
            _LOG.debug("no formats keep the goal with %s: %s", ", ".join(kept), error)
            return replace(fitted, tried=tried)
    if not _is_better(again, fitted):
        return replace(fitted, tried=tried)
    front = [*fitted.front, fitted.result]
    tried = [replace(item, kept=item.name in again.result.steps) for item in tried]
    return replace(again, tried=tried, front=front)


def _is_better(fitted: Fitted, other: Fitted) -> bool:
    if fitted.goal.bounds_loss:
        return fitted.result.cost.weighed < LESS * other.result.cost.weighed
    return fitted.result.sqnr_db > other.result.sqnr_db


def changed(
    base: MaseGraph,
    samples: Samples,
    lanes: Lanes,
    fitted: Fitted,
    fit: Callable[[MaseGraph], Fitted],
) -> Fitted:
    """Return formats of a changed graph that computes the same, where they take less.

    Args:
        base: the canonical graph with observed ranges.
        samples: to change it on, and to compare on.
        lanes: the parallelism of the hardware.
        fitted: formats of the base.
        fit: returns the formats of another graph.
    """
    width = {"name": DEFAULT_FORMAT, "width": NARROW}
    plain = _run(base, samples, lanes, width)
    best, tried = fitted, list[Tried]()
    for name, mg in _changes(base, samples):
        stage(name)
        other = _run(mg, samples, lanes, width)
        if plain is None or other is None:
            continue
        tried.append(Tried(name, other.sqnr_db - plain.sqnr_db))
        if other.sqnr_db < plain.sqnr_db + LEAST_DB:
            continue
        try:
            again = fit(mg)
        except MaseError as error:
            _LOG.debug("no formats are fitted with %s: %s", name, error)
            continue
        if _is_better(again, best):
            best = replace(again, changed=name, front=[*best.front, best.result])
    tried = [replace(item, kept=item.name == best.changed) for item in tried]
    return replace(best, tried=[*tried, *best.tried])


def _changes(base: MaseGraph, samples: Samples) -> Iterator[tuple[str, MaseGraph]]:
    for name, change in CHANGES.items():
        try:
            mg = change(base, samples.spread(base))
        except MaseError as error:
            _LOG.debug("%s is left out: %s", name, error)
            continue
        if mg is not None:
            yield name, with_ranges(mg, samples)


def _run(mg: MaseGraph, samples: Samples, lanes: Lanes, width: dict[str, object]) -> Result | None:
    unlabelled = replace(samples, compared_on=replace(samples.compared_on, labels=None))
    try:
        return Evaluator(mg, unlabelled, lanes).run("", uniform(mg, width))
    except MaseError as error:
        _LOG.debug("%s is not compared: %s", mg.name, error)
        return None
