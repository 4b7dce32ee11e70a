"""`fit_formats`: the formats that keep a model for the least hardware."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from torch import nn

from mase_hw._stages import stage
from mase_hw.data import Split
from mase_hw.emit.flow import canonicalize, lowered
from mase_hw.errors import ConfigError
from mase_hw.formats import DEFAULT_FORMAT
from mase_hw.graph import MaseGraph, trace
from mase_hw.graph.metadata import common
from mase_hw.hardware.explore import Explorer, Targets, split_targets
from mase_hw.passes.canonical.decompose import decompose_fused_transform_pass
from mase_hw.passes.canonical.software_metadata import batches_of
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.passes.hardware.memory import NODE_STYLE
from mase_hw.precision.configuration import uniform
from mase_hw.precision.cost import Lanes, Prices, cost_of, with_lanes
from mase_hw.precision.fitted import Fitted
from mase_hw.precision.fitting import Fitting
from mase_hw.precision.goal import Goal
from mase_hw.precision.noise import Progress
from mase_hw.precision.outputs import check_goal
from mase_hw.precision.prepare import changed, prepared
from mase_hw.precision.ranges import with_ranges
from mase_hw.precision.samples import Part, Samples
from mase_hw.precision.verdict import judged

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
    What is returned tells what they keep on a third one, which no choice depends on.

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
        formats: names of the formats to try; all that know what to try without.
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
    advance, prices = _growing(progress), Prices()

    def plain(mg: MaseGraph, lanes: Lanes) -> tuple[Fitting, Fitted]:
        fitting = Fitting(mg, goal, samples, formats, lanes, seed, output, advance, prices)
        return fitting, fitting.fitted()

    def fitted_for(lanes: Lanes) -> Fitted:
        if not prepare:
            return plain(base, lanes)[1]
        first = prepared(*plain(base, lanes))
        return changed(base, samples, lanes, first, lambda mg: prepared(*plain(mg, lanes)))

    def chosen() -> Fitted:
        asked, targets = split_targets(parallelism)
        if targets is None:
            return fitted_for(asked)
        both = _together(base, asked, targets, lambda lanes: plain(base, lanes))
        if not prepare:
            return both
        again = fitted_for(both.parallelism)
        return min(both, again, key=lambda item: item.result.cost.order)

    return judged(base, chosen(), samples.compared_on, judged_on)


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
    """Return samples whose labels are classes, or that have none where a goal asks for none.

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


def _growing(progress: Progress | None) -> Progress | None:
    if progress is None:
        return None
    most = 0

    def advance(done: int, total: int) -> None:
        nonlocal most
        most = max(most, done)
        progress(most, total)

    return advance


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
    first = quantize_transform_pass(mg, uniform(mg, {"name": DEFAULT_FORMAT, "width": FIRST_WIDTH}))
    explorer = Explorer.of(lowered(first[0]), fixed)
    own = _own(first[0])
    lanes = _lanes(explorer, targets, own)
    best: tuple[Fitting, Fitted] | None = None
    for _ in range(TURNS):
        fitting, fitted = fit(lanes)
        lanes = _lanes(Explorer.of(lowered(fitted.graph), fixed), targets, own)
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


def _lanes(explorer: Explorer, targets: Targets, own: Collection[str]) -> Mapping[str, object]:
    """Return the parallelism of least resources for a rate, of nodes that are no casts.

    The style of memories is left to the cheaper one, as where formats are priced.
    """
    return {
        name: {key: value for key, value in entry.items() if key != NODE_STYLE}
        if isinstance(entry, Mapping)
        else entry
        for name, entry in explorer.best(targets).table.items()
        if name == "default" or name in own
    }


def _own(mg: MaseGraph) -> set[str]:
    return {
        node.name
        for node in mg.nodes
        if node.op != "call_function"
        or (common(node).operator is not None and mg.call(node).operator.role is None)
    }
