"""`fit_formats`: the formats that keep a model for the least hardware."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._results import result_file
from mase_hw._stages import stage
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError, DataError, MaseError, PrecisionError
from mase_hw.formats import DEFAULT_FORMAT
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import ValueRange, common, location, metadata, update
from mase_hw.passes.canonical.decompose import decompose_fused_transform_pass
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.formats.agreement import checksum
from mase_hw.passes.formats.expected_agreement import is_real
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.precision.choice import Chooser, Chosen
from mase_hw.precision.configuration import configuration, uniform, uniform_points
from mase_hw.precision.cost import CostTable, with_lanes
from mase_hw.precision.evaluation import Evaluator, Result
from mase_hw.precision.goal import Goal
from mase_hw.precision.noise import Measure, NoiseMeter, NoiseTable, by_confidence, parts
from mase_hw.precision.operands import operands_of
from mase_hw.precision.samples import Samples

_LOG = logging.getLogger(__name__)
# Examples on which the noise of options is measured.
EXAMPLES = 32
# How often a choice is made anew where the target does not hold, or much is left of it.
ROUNDS, STEPS = 6, 9
SLACK_DB = 0.5
# How much more noise than a choice a uniform format may be predicted to have, to be run.
UNIFORM_NOISE = 16.0
# Widths of the reference in which a node that is priced has its other operands.
REFERENCE_WIDTHS = (16, 8)
STATE = "noise.json"
HEADROOM = 2.0
# What is lost beyond the target where ranges are too narrow for held-out samples.
CLIPPED_DB = 3.0
# Of what a design takes beyond a budget, how much less the next choice may take.
SPARED, LESS = 1.5, 0.01
# Of progress: measuring, choosing, comparing; steps of each.
PARTS, PART = 3, 100

Progress = Callable[[int, int], None]


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
class Fitted:
    """The formats that were found.

    Attributes:
        name: of the model.
        goal: what was asked.
        result: the configuration, its agreement on held-out samples and its cost.
        predicted_db: agreement as the noise of its options alone says, without correction; None
            where outputs are no reals.
        rows: operands.
        front: other configurations that were run: on the way, and uniform ones.
        float_accuracy: of the float model; None without labels.
        examples: that were held out.
    """

    name: str
    goal: Goal
    result: Result
    predicted_db: float | None
    rows: Sequence[Row]
    front: Sequence[Result]
    float_accuracy: float | None
    examples: int

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration."""
        return self.result.config

    @property
    def graph(self) -> MaseGraph:
        """The quantised graph."""
        return self.result.graph


def fit_formats(
    mg: MaseGraph,
    *,
    data: Any = None,
    held_out: Any = None,
    labels: Any = None,
    min_sqnr: float | None = None,
    max_drop: float | None = None,
    max_lut: float | None = None,
    max_bram: float | None = None,
    formats: Collection[str] | None = None,
    parallelism: int | str | Mapping[str, Any] = 1,
    seed: int = 0,
    output: Path | None = None,
    progress: Progress | None = None,
) -> Fitted:
    """Return the number formats that keep a model for the least hardware.

    Args:
        mg: a captured graph.
        data: batches of inputs; the example inputs without.
        held_out: batches on which the choice is checked; without them, every fourth example.
        labels: classes of the examples of `held_out`, or of `data`, for `max_drop`.
        min_sqnr: decibels that every output keeps against the float model, see `Goal`.
        max_drop: points of accuracy, or the percentage of other elements, to lose at most.
        max_lut: look-up tables of all nodes, at most.
        max_bram: block RAMs of all nodes, at most.
        formats: names of the formats to try; all that know what to try without.
        parallelism: of the hardware, see `mase_hw.emit_verilog`.
        seed: of the random vectors by which errors are measured.
        output: a folder, in which measured noise is kept, so that a run that was stopped goes on.
        progress: called with steps done and steps in all.

    Raises:
        ConfigError: for a goal that is none.
        DataError: for data that nothing can be held out of, or labels that lack.
        PrecisionError: where no formats reach the goal; it says how near the best come.
        UnsupportedError: where the model has no hardware.
    """
    goal = Goal(min_sqnr, max_drop, max_lut, max_bram)
    if mg.is_quantized:
        raise ConfigError(f"{mg.name} has formats already; give the graph that trace returned")
    stage("canonical graph")
    base, _ = decompose_fused_transform_pass(canonicalize(mg, {}), {})
    samples = Samples.of(base, data, held_out, labels)
    base, _ = add_software_metadata_analysis_pass(base, {"data": samples.chosen_on})
    given = (goal, samples, formats, parallelism, seed, output, _growing(progress))
    try:
        found = _Fitting(base, *given, is_last=not goal.bounds_loss).fitted()
        if goal.bounds_loss or not _clips(found.result):
            return found
    except PrecisionError:
        if not goal.bounds_loss:
            raise
        found = None
    # Held-out samples may reach further than those that ranges were seen on.
    again = _Fitting(_widened(base), *given).fitted()
    return again if found is None or again.result.sqnr_db > found.result.sqnr_db else found


def _growing(progress: Progress | None) -> Progress | None:
    """Return a progress that never goes back, as where a choice begins anew."""
    if progress is None:
        return None
    most = 0

    def advance(done: int, total: int) -> None:
        nonlocal most
        most = max(most, done)
        progress(most, total)

    return advance


def _widened(mg: MaseGraph) -> MaseGraph:
    """Return a graph whose streams are taken to reach `HEADROOM` times as far as was seen."""
    mg = mg.copy()
    for node in mg.nodes:
        software = metadata(node).software
        if software is not None:
            ranges = {name: _times(item) for name, item in software.ranges.items()}
            update(node, software=replace(software, ranges=ranges))
    return mg


def _times(seen: ValueRange) -> ValueRange:
    return replace(seen, minimum=HEADROOM * seen.minimum, maximum=HEADROOM * seen.maximum)


class _Fitting:
    """One search."""

    def __init__(
        self,
        mg: MaseGraph,
        goal: Goal,
        samples: Samples,
        families: Collection[str] | None,
        parallelism: int | str | Mapping[str, Any],
        seed: int,
        output: Path | None,
        progress: Progress | None,
        *,
        is_last: bool = True,
    ) -> None:
        self._mg, self._goal, self._samples, self._seed = mg, goal, samples, seed
        self._parallelism, self._output, self._progress = parallelism, output, progress
        self._operands = operands_of(mg, families)
        if not self._operands:
            raise ConfigError(f"{mg.name} has no tensor whose format could be chosen")
        self._measure = _measure(mg, goal, samples)
        self._evaluator = Evaluator(mg, samples, parallelism)
        self._is_last = is_last
        self._tried: dict[tuple[int, ...], Result] = {}
        self._front: list[Result] = []

    def fitted(self) -> Fitted:
        """Return what is found."""
        stage("noise of formats")
        noise = self._noise().relative()
        stage("cost of formats")
        self._chooser = Chooser(self._operands, noise, CostTable(self._reference()))
        stage("choice")
        if not self._goal.bounds_loss:
            chosen, result = self._within_budgets()
        elif self._goal.min_sqnr is not None:
            chosen, result = self._by_sqnr(10.0 ** (-self._goal.min_sqnr / 10.0))
        else:
            chosen, result = self._by_drop()
        stage("uniform formats")
        self._uniform()
        real = any(item.sqnr_db is not None for item in result.outputs.values())
        predicted = -10.0 * math.log10(max(float(chosen.noise.max()), 1e-30)) if real else None
        return Fitted(
            self._mg.name,
            self._goal,
            result,
            predicted if self._measure.weigh is not by_confidence else None,
            self._rows(chosen, result),
            [item for item in (*self._tried.values(), *self._front) if item is not result],
            self._evaluator.accuracy,
            sum(len(inputs[0]) for inputs in self._samples.held_out),
        )

    def _noise(self) -> NoiseTable:
        table = NoiseTable(self._operands, len(self._measure.nodes))
        meter = NoiseMeter(self._mg, self._operands, self._measure, self._seed)
        key = self._key()
        state = self._output / STATE if self._output else None
        known = json.loads(state.read_text()) if state and state.is_file() else {}
        if key in known:
            table.load(known[key])
        chunks = parts(self._mg, self._samples.chosen_on, EXAMPLES)
        for number, inputs in enumerate(chunks):
            if number >= table.done:
                meter.add(table, inputs)
                if state:
                    with result_file(state) as made:
                        made.write_text(json.dumps({**known, key: table.to_dict()}))
            self._advance(number + 1, len(chunks), 0)
        return table

    def _advance(self, done: int, total: int, part: int) -> None:
        """Tell of progress; measuring, choosing and comparing are as long as each other."""
        if self._progress:
            self._progress(part * PART + round(PART * done / max(total, 1)), PARTS * PART)

    def _key(self) -> str:
        """Return what tells whether noise was measured of the same."""
        options = [
            [item.name, [str(o.number_format) for o in item.options]] for item in self._operands
        ]
        known = [checksum(self._mg), self._samples.digest(), self._seed, str(self._goal), options]
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()

    def _reference(self) -> MaseGraph:
        """Return the graph in which nodes are priced.

        Raises:
            UnsupportedError: where the model has no hardware.
        """
        found: MaseError | None = None
        for width in REFERENCE_WIDTHS:
            try:
                config = uniform(self._mg, {"name": DEFAULT_FORMAT, "width": width})
                return with_lanes(quantize_transform_pass(self._mg, config)[0], self._parallelism)
            except MaseError as error:
                found = found or error
        assert found is not None
        raise found

    def _run(self, chosen: Chosen) -> Result:
        if chosen.options not in self._tried:
            config = configuration(self._mg, self._operands, chosen.options)
            name = f"choice {len(self._tried) + 1}"
            self._tried[chosen.options] = self._evaluator.run(name, config)
        return self._tried[chosen.options]

    def _within_budgets(self) -> tuple[Chosen, Result]:
        budgets = dict(self._goal.budgets)
        for _ in range(ROUNDS):
            chosen = self._chooser.best(budgets)
            if chosen is None:
                break
            result = self._run(chosen)
            beyond = self._beyond(result)
            if not beyond:
                return chosen, result
            # What casts take is known of a whole graph alone.
            for name, more in beyond.items():
                budgets[name] -= SPARED * more + LESS * budgets[name]
        raise PrecisionError(self._too_little())

    def _beyond(self, result: Result) -> dict[str, float]:
        """Return by how much a result is beyond the budgets."""
        taken = {name: getattr(result.cost, name) for name in self._goal.budgets}
        return {n: taken[n] - most for n, most in self._goal.budgets.items() if taken[n] > most}

    def _too_little(self) -> str:
        coarsest = self._run(self._chooser.coarsest()).cost
        for name, most in self._goal.budgets.items():
            least = max(self._chooser.least(name), getattr(coarsest, name))
            if least > most:
                return (
                    f"max_{name} {most:g} is too little: {self._mg.name} takes "
                    f"{math.ceil(least):g} in the cheapest formats, without queues"
                )
        return f"no formats of {self._mg.name} keep {self._goal} at once; raise one of them"

    def _by_sqnr(self, target: float) -> tuple[Chosen, Result]:
        """Return the cheapest choice whose noise on held-out samples is within the target."""
        factor = torch.ones(len(self._measure.nodes), dtype=torch.float64)
        best: tuple[Chosen, Result] | None = None
        wanted = -10.0 * math.log10(target)
        for number in range(ROUNDS):
            chosen = self._chooser.cheapest(target / factor, self._goal.budgets)
            if chosen is None:
                break
            result = self._run(chosen)
            left = result.sqnr_db - wanted
            if left < -CLIPPED_DB and not self._is_last and _clips(result):
                raise PrecisionError("held-out samples are clipped")
            best = self._better(best, chosen, result)
            if 0 <= left <= SLACK_DB or (best is not None and number >= ROUNDS // 2 and left >= 0):
                break
            factor = self._corrected(chosen, result, number)
            self._advance(number + 1, ROUNDS, 1)
        best = self._or_uniform(best)
        if best is None:
            raise PrecisionError(self._out_of_reach(f"min_sqnr {wanted:g}"))
        return best

    def _keeps(self, result: Result) -> bool:
        """Return whether a result is what was asked for."""
        goal = self._goal
        if goal.min_sqnr is not None and result.sqnr_db < goal.min_sqnr:
            return False
        lost = goal.max_drop is not None and (result.drop is None or result.drop > goal.max_drop)
        return not lost and not self._beyond(result)

    def _better(
        self, best: tuple[Chosen, Result] | None, chosen: Chosen, result: Result
    ) -> tuple[Chosen, Result] | None:
        """Return the cheaper of what was best and a result that keeps the goal."""
        if not self._keeps(result):
            return best
        cheaper = best is None or result.cost.weighed < best[1].cost.weighed
        return (chosen, result) if cheaper else best

    def _or_uniform(self, best: tuple[Chosen, Result] | None) -> tuple[Chosen, Result] | None:
        """Return the narrowest format that serves everywhere, where that takes less.

        It needs no casts, which the choice of each format by itself does not see.
        """
        bound = None if best is None else float(best[0].noise.max()) * UNIFORM_NOISE
        for chosen in self._chooser.uniform():
            if bound is not None and float(chosen.noise.max()) > bound:
                continue
            result = self._run(chosen)
            found = self._better(best, chosen, result)
            if self._keeps(result):
                return found
        return best

    def _corrected(self, chosen: Chosen, result: Result, number: int) -> Tensor:
        """Return by output what measured noise is of predicted noise."""
        found = []
        for place, node in enumerate(self._measure.nodes):
            ratio = _ratio(self._mg, node, result)
            noise = 10.0 ** (-ratio / 10.0) if math.isfinite(ratio) else (0.0 if ratio > 0 else 1e3)
            found.append(max(noise / max(float(chosen.noise[place]), 1e-300), 1e-6))
        # A little more each round, so that a target which is missed by little is met.
        return torch.tensor(found, dtype=torch.float64) * (1.0 + 0.02 * (number + 1))

    def _by_drop(self) -> tuple[Chosen, Result]:
        """Return the coarsest choice, over bounds of noise, that loses no more than is asked."""
        assert self._goal.max_drop is not None
        finest, coarsest = self._chooser.finest(), self._chooser.coarsest()
        low, high = (math.log(float(item.noise.sum()) + 1e-30) for item in (finest, coarsest))
        best: tuple[Chosen, Result] | None = None
        for number in range(STEPS):
            middle = (low + high) / 2
            bound = torch.full((len(self._measure.nodes),), math.exp(middle), dtype=torch.float64)
            chosen = self._chooser.cheapest(bound, self._goal.budgets)
            kept = False
            if chosen is not None:
                result = self._run(chosen)
                kept = self._keeps(result)
                best = self._better(best, chosen, result)
            low, high = (middle, high) if kept or chosen is None else (low, middle)
            self._advance(number + 1, STEPS, 1)
        best = self._or_uniform(best) or self._better(None, finest, self._run(finest))
        if best is None:
            raise PrecisionError(self._out_of_reach(f"max_drop {self._goal.max_drop:g}"))
        return best

    def _out_of_reach(self, asked: str) -> str:
        """Return how near the finest formats come, and what limits them."""
        if self._goal.budgets:
            return f"no formats of {self._mg.name} keep {self._goal} at once; raise one of them"
        finest = self._chooser.finest()
        result = self._run(finest)
        operand, option, share = self._chooser.worst_of(finest)
        reached = (
            f"{result.sqnr_db:.1f} dB"
            if self._goal.min_sqnr is not None
            else f"{result.drop:.2f} points"
        )
        return (
            f"{asked} is out of reach for {self._mg.name}: the finest formats that are tried give "
            f"{reached} on held-out samples; {operand.name} of {operand.node.name} "
            f"({location(operand.node)}) limits it, which as {option.number_format} adds "
            f"{100 * share:.0f} % of the error"
        )

    def _uniform(self) -> None:
        """Run uniform formats, for comparison; those without hardware are left out."""
        tried = {option.number_format.name for item in self._operands for option in item.options}
        points = list(uniform_points(sorted(tried)))
        for number, (label, fields) in enumerate(points):
            self._advance(number, len(points), 2)
            try:
                config = uniform(self._mg, fields)
                self._front.append(self._evaluator.run(f"uniform {label}", config))
            except MaseError as error:
                _LOG.debug("uniform %s is left out of the front: %s", label, error)

    def _rows(self, chosen: Chosen, result: Result) -> list[Row]:
        total = max(result.cost.weighed, 1e-9)
        shares = self._chooser.shares(chosen)
        rows, seen = [], set[Node]()
        for place, (operand, number) in enumerate(zip(self._operands, chosen.options, strict=True)):
            cost = None
            if operand.node not in seen:
                cost = self._chooser.cost(chosen, place).weighed / total
            seen.add(operand.node)
            given = operand.options[number].number_format
            rows.append(
                Row(
                    operand.node.name,
                    operand.name,
                    str(given),
                    given.bits_per_element,
                    shares[place],
                    cost,
                )
            )
        return rows


def _measure(mg: MaseGraph, goal: Goal, samples: Samples) -> Measure:
    """Return what the noise of options is measured of.

    Raises:
        DataError: where a goal asks for labels that are not there.
        ConfigError: where it asks for decibels of what is no real number.
    """
    outputs = list(dict.fromkeys(node for node in mg.outputs if node.op == "call_function"))
    real = [node for node in outputs if _is_real(node)]
    if goal.max_drop is not None and samples.labels is None and len(real) == len(outputs):
        raise DataError(
            "max_drop counts points of accuracy, which needs labels; give data with the class of "
            "every example, or min_sqnr, which needs none"
        )
    if goal.min_sqnr is not None and not real:
        raise ConfigError(
            f"the outputs of {mg.name} are indices or truths, of which there are no decibels; "
            "give max_drop, the percentage of elements that may differ from the float model's"
        )
    if goal.max_drop is not None and len(real) == 1 == len(outputs):
        return Measure(real, by_confidence)
    return Measure(real if goal.max_drop is None and real else _behind(outputs))


def _behind(outputs: Sequence[Node]) -> list[Node]:
    """Return the nearest real results from which outputs are computed."""
    found: dict[Node, None] = {}
    waiting = list(outputs)
    while waiting:
        node = waiting.pop()
        if node.op == "call_function":
            if _is_real(node):
                found[node] = None
            else:
                waiting += node.all_input_nodes
    return list(found)


def _clips(result: Result) -> bool:
    """Return whether a format clips held-out samples."""
    known = (metadata(node).agreement for node in result.graph.nodes)
    return any(item is not None and item.saturated for item in known)


def _is_real(node: Node) -> bool:
    known = common(node).results.get("data_out_0")
    return known is not None and is_real(known.dtype)


def _ratio(mg: MaseGraph, node: Node, result: Result) -> float:
    """Return the signal over error of an output in a result."""
    ratios = [
        item.sqnr_db
        for name, output in zip(mg.output_names, mg.outputs, strict=True)
        if output is node and (item := result.outputs.get(name)) and item.sqnr_db is not None
    ]
    return min(ratios, default=math.inf)
