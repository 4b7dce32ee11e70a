"""`fit_formats`: the formats that keep a model for the least hardware."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from torch import nn

from mase_hw._stages import stage
from mase_hw.data import Split
from mase_hw.emit.flow import canonicalize, lowered
from mase_hw.errors import ConfigError, MaseError
from mase_hw.formats import DEFAULT_FORMAT
from mase_hw.graph import MaseGraph, trace
from mase_hw.graph.nodes import common
from mase_hw.hardware.explore import Explorer, Targets, split_targets
from mase_hw.passes.canonical.decompose import decompose_fused_transform_pass
from mase_hw.passes.canonical.software_metadata import batches_of
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.passes.hardware.memory import NODE_STYLE
from mase_hw.precision.cost import Lanes, Prices, cost_of, with_lanes
from mase_hw.precision.evaluation import Evaluator, Goal, Result
from mase_hw.precision.fitted import Fitted, Tried
from mase_hw.precision.fitting import LEAST_DB, Fitting, is_better
from mase_hw.precision.noise import Progress
from mase_hw.precision.outputs import check_goal
from mase_hw.precision.preparations import CHANGES, NARROW_FORMAT
from mase_hw.precision.samples import Part, Samples, with_ranges
from mase_hw.precision.space import uniform

_LOG = logging.getLogger(__name__)
# Of the first lanes; and how often formats and lanes are chosen in turns.
FIRST_WIDTH, TURNS = 8, 2


def fit_formats(
    model: nn.Module | MaseGraph,
    *,
    example_inputs: object = None,
    data: object = None,
    held_out: object = None,
    labels: object = None,
    min_sqnr: float | None = None,
    max_drop: float | None = None,
    max_lut: float | None = None,
    max_bram: float | None = None,
    formats: Collection[str] | None = None,
    parallelism: Lanes = 1,
    seed: int = 0,
    prepare: bool = True,
    output: Path | None = None,
    progress: Progress | None = None,
) -> Fitted:
    """Return the number formats that keep a model for the least hardware.

    Formats are chosen on a part of the samples, compared, repaired and prepared on a second one.
    The figures that are returned are those of a third one, which no choice depends on.

    Args:
        model: a captured graph, or a module.
        example_inputs: of a module, see `mase_hw.trace`; the first batch of the data without.
        data: a `mase_hw.data.Split`, whose samples to train, to validate and to test on are the
            three parts; or batches of inputs; the example inputs without.
        held_out: batches that are the third part; without them every fourth example is.
        labels: classes of the examples of `held_out`, or of `data`, for `max_drop`.
        min_sqnr: decibels that every output keeps against the float model, see `Goal`.
        max_drop: points of accuracy, or the percentage of other elements, to lose at most.
        max_lut: look-up tables of all nodes, at most.
        max_bram: block RAMs of all nodes, at most.
        formats: names of the formats to try; all that list choices without.
        parallelism: of the hardware, see `mase_hw.emit_verilog`; a table with `target_interval`,
            or `target_fps` and `clock`, has it chosen together with the formats.
        seed: of the random vectors by which errors are measured.
        prepare: whether ranges, codes, biases and scales of channels are fitted to data, too, where
            formats that keep the goal take less then; the fitted graph has its own weights.
        output: a folder, in which measured noise is kept, so that a run that was stopped goes on.
        progress: called with steps done and steps in all.

    Raises:
        ConfigError: for a goal that is none.
        DataError: for data that nothing can be held out of, or labels that lack.
        PrecisionError: where no formats reach the goal; it says how near the best come.
        UnsupportedError: where the model has no hardware.
    """
    goal = Goal(min_sqnr, max_drop, max_lut, max_bram)
    mg = model if isinstance(model, MaseGraph) else _traced(model, example_inputs, data)
    if mg.is_quantized:
        raise ConfigError(f"{mg.name} has formats already; give the graph that trace returned")
    stage("canonical graph")
    base, _ = decompose_fused_transform_pass(canonicalize(mg, {}), {})
    samples, judged_on = _samples(base, goal, Samples.of(base, data, held_out, labels))
    base = with_ranges(base, samples)
    prices, most = Prices(), 0

    def advance(done: int, total: int) -> None:
        nonlocal most
        most = max(most, done)
        if progress:
            progress(most, total)

    def plain(mg: MaseGraph, lanes: Lanes) -> tuple[Fitting, Fitted]:
        fitting = Fitting(mg, goal, samples, formats, lanes, seed, output, advance, prices)
        return fitting, fitting.fitted()

    def fitted_for(lanes: Lanes) -> Fitted:
        def prepared(mg: MaseGraph) -> Fitted:
            fitting, fitted = plain(mg, lanes)
            return fitting.prepared(fitted)

        return _changed(base, samples, lanes, prepared) if prepare else plain(base, lanes)[1]

    lanes, targets = split_targets(parallelism)
    if targets is None:
        chosen = fitted_for(lanes)
    else:
        chosen = _together(base, lanes, targets, lambda lanes: plain(base, lanes))
        if prepare:
            again = fitted_for(chosen.parallelism)
            chosen = min(chosen, again, key=lambda item: item.result.cost.order)
    return chosen.judged(base, samples.compared_on, judged_on)


def _traced(module: nn.Module, example_inputs: object, data: object) -> MaseGraph:
    if example_inputs is None and data is not None:
        batches = [data.train_inputs] if isinstance(data, Split) else batches_of(data)
        example_inputs = next(iter(batches), None)
    if example_inputs is None:
        raise ConfigError("a module needs data or example_inputs: the tensors that it takes")
    return trace(module, example_inputs)


def _samples(
    mg: MaseGraph, goal: Goal, parts: tuple[Samples, Part | None]
) -> tuple[Samples, Part | None]:
    """Drop labels that are no classes where the goal asks for none.

    Raises:
        DataError: where a goal asks for labels that are not there.
    """
    samples, last = parts
    labels = [part.labels for part in (samples.compared_on, last) if part is not None]
    check_goal(mg, goal, next((item for item in labels if item is not None), None))
    if goal.max_drop is not None or all(
        item is None or (item.dim() == 1 and not item.is_floating_point()) for item in labels
    ):
        return parts
    bare = replace(samples, compared_on=replace(samples.compared_on, labels=None))
    return bare, None if last is None else replace(last, labels=None)


def _changed(
    base: MaseGraph, samples: Samples, lanes: Lanes, fit: Callable[[MaseGraph], Fitted]
) -> Fitted:
    """Return formats of a graph, or of a changed one that computes the same, if they take less."""
    best, tried = fit(base), list[Tried]()
    plain = _narrow(base, samples, lanes)
    for name, mg in _changes(base, samples):
        stage(name)
        other = _narrow(mg, samples, lanes)
        if plain is None or other is None:
            continue
        gain = other.sqnr_db - plain.sqnr_db
        tried.append(Tried(name, gain))
        if gain < LEAST_DB:
            continue
        try:
            again = fit(mg)
        except MaseError as error:
            _LOG.debug("no formats are fitted with %s: %s", name, error)
            continue
        if is_better(again, best):
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


def _narrow(mg: MaseGraph, samples: Samples, lanes: Lanes) -> Result | None:
    """Run a uniform narrow format, in which a change of the graph has to gain."""
    unlabelled = replace(samples, compared_on=replace(samples.compared_on, labels=None))
    try:
        return Evaluator(mg, unlabelled, lanes).run("", uniform(mg, NARROW_FORMAT))
    except MaseError as error:
        _LOG.debug("%s is not compared: %s", mg.name, error)
        return None


def _together(
    mg: MaseGraph,
    fixed: Mapping[str, object],
    targets: Targets,
    fit: Callable[[Lanes], tuple[Fitting, Fitted]],
) -> Fitted:
    """Choose formats and parallelism in turns until neither changes, then in one problem.

    Raises:
        ConfigError: for a target of resources, which the formats have, too.
        ParallelismError: for a rate that no design has.
    """
    if targets.budgets:
        raise ConfigError(
            "max_lut, max_dsp and max_bram of a parallelism do not go with formats that are to be "
            "chosen; give max_lut and max_bram to fit_formats"
        )
    config = uniform(mg, {"name": DEFAULT_FORMAT, "width": FIRST_WIDTH})
    first, _ = quantize_transform_pass(mg, config)
    own = {
        node.name
        for node in first.nodes
        if node.op != "call_function"
        or (common(node).operator is not None and first.call(node).operator.role is None)
    }
    explorer = Explorer.of(lowered(first), fixed)

    def lanes_of(explorer: Explorer) -> Mapping[str, object]:
        # Of nodes that are no casts; memories take the cheaper style, as where they are priced.
        return {
            name: {key: value for key, value in entry.items() if key != NODE_STYLE}
            if isinstance(entry, Mapping)
            else entry
            for name, entry in explorer.best(targets).table.items()
            if name == "default" or name in own
        }

    lanes = lanes_of(explorer)
    best: tuple[Fitting, Fitted] | None = None
    for _ in range(TURNS):
        fitting, fitted = fit(lanes)
        lanes = lanes_of(Explorer.of(lowered(fitted.graph), fixed))
        # The same formats in the parallelism that suits them best.
        cost = cost_of(with_lanes(fitted.graph, lanes))
        if cost.weighed < fitted.result.cost.weighed:
            fitted = replace(fitted, result=replace(fitted.result, cost=cost), parallelism=lanes)
        if best is not None and fitted.result.cost.weighed >= best[1].result.cost.weighed:
            break
        best = fitting, fitted
        if lanes == fitted.parallelism:
            break
    assert best is not None
    fitting, fitted = best
    if targets.cycles is None:
        return fitted
    return fitting.together(fitted, explorer, targets.cycles, own) or fitted
