"""One choice of formats for a graph: measured, solved, compared on other samples and repaired."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from mase_hw._stages import stage
from mase_hw.emit.preflight import preflight
from mase_hw.errors import ConfigError, MaseError, PrecisionError, UnsupportedError
from mase_hw.formats import DEFAULT_FORMAT
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import location
from mase_hw.hardware.estimate import Estimate
from mase_hw.hardware.explore import Explorer
from mase_hw.precision.choice import Chooser, Chosen, choose_together
from mase_hw.precision.cost import CostTable, Lanes, Prices, with_lanes
from mase_hw.precision.evaluation import Evaluator, Goal, Result, Row
from mase_hw.precision.fitted import Fitted, Tried
from mase_hw.precision.noise import NoiseTable, Progress
from mase_hw.precision.outputs import measure_of, measured_noise_of
from mase_hw.precision.preparations import OF_RANGES, STEPS
from mase_hw.precision.samples import Samples
from mase_hw.precision.space import configuration, operands_of, uniform, uniform_points

_LOG = logging.getLogger(__name__)
# How often a choice is repeated where the target does not hold, or much is left of it.
ROUNDS = 6
SLACK_DB = 0.5
# Of the logarithm of a bound of noise: its resolution, and how far beyond the one without
# preparation it may lie with that.
NEAR, FURTHER = 0.07, math.log(10.0)
# How often formats and lanes are chosen together, and by how much more tightly each time.
TOGETHER, TIGHTER_DB = 4, 0.1
# How much more noise than a choice a uniform format may be predicted to have, to be run.
UNIFORM_NOISE = 16.0
# Widths of the reference in which a node that is priced has its other operands.
REFERENCE_WIDTHS = (16, 8)
# Examples that show what ranges clip which do not reach as far as those to come.
CLIPS_SEEN = 256
# Decibels that a preparation has to gain at the same formats, to be followed.
LEAST_DB = 0.5
# What a step may take more, as where sums of other weights are a bit wider, and what formats that
# need a preparation have to take, of those without.
MORE, LESS = 1.01, 0.99
# Of progress: measuring, choosing, comparing; steps of each.
PARTS, PART = 3, 100


class Fitting:
    """One choice: measured, solved, checked and repaired.

    Args:
        mg: a canonical graph with observed ranges.
        goal: the bounds.
        samples: to choose and to compare on.
        families: names of the formats to try.
        parallelism: of the hardware whose cost counts.
        seed: of the measurement.
        output: a folder for measured noise.
        progress: told of steps.
        prices: costs of nodes of similar graphs; more are added.
    """

    def __init__(
        self,
        mg: MaseGraph,
        goal: Goal,
        samples: Samples,
        families: Collection[str] | None,
        parallelism: Lanes,
        seed: int,
        output: Path | None,
        progress: Progress | None,
        prices: Prices | None = None,
    ) -> None:
        self._mg, self._goal, self._samples, self._seed = mg, goal, samples, seed
        self._parallelism, self._output, self._progress = parallelism, output, progress
        self._operands = operands_of(mg, families)
        if not self._operands:
            raise ConfigError(f"{mg.name} has no tensor whose format could be chosen")
        self._measure = measure_of(mg, goal, samples)
        self._evaluator = Evaluator(mg, samples, parallelism, goal.max_drop)
        self._prices = {} if prices is None else prices
        self._tried: dict[tuple[int, ...], tuple[Chosen, Result]] = {}
        self._kept: float | None = None
        self._front: list[Result] = []

    def fitted(self) -> Fitted:
        """Choose formats, beside uniform ones."""
        stage("noise of formats")
        table = NoiseTable(self._mg, self._operands, self._measure, self._seed)
        table.add_all(self._samples, self._output, partial(self._advance, 0))
        stage("cost of formats")
        costs = CostTable(self._reference(), self._prices)
        self._chooser = Chooser(self._operands, table.relative(), costs)
        chosen = self._chosen()
        stage("uniform formats")
        tried = {option.number_format.name for item in self._operands for option in item.options}
        points = list(uniform_points(tried))
        for number, (label, fields) in enumerate(points):
            self._advance(2, number, len(points))
            try:
                config = uniform(self._mg, fields)
                self._front.append(self._evaluator.run(f"uniform {label}", config))
            except MaseError as error:
                _LOG.debug("uniform %s is left out of the front: %s", label, error)
        if self._goal.bounds_loss:
            cheaper = [item for item in self._front if self._goal.holds(item)]
            best = min([chosen.result, *cheaper], key=lambda item: item.cost.order)
            if best is not chosen.result:
                self._front.append(chosen.result)
                chosen = replace(chosen, result=replace(best, rows=self._rows(best)))
        return replace(chosen, front=[*chosen.front, *self._front])

    def prepared(self, fitted: Fitted) -> Fitted:
        """Return formats whose graphs are prepared, where those keep the goal for less.

        Steps are tried at the chosen formats of `fitted`, the result of this choice without them.
        """
        best, kept, tried = fitted.result, list[str](), list[Tried]()
        few = self._samples.compared_on.examples < CLIPS_SEEN
        for name in (item for item in STEPS if not (few and item in OF_RANGES)):
            stage(name)
            plain = fitted.result
            try:
                evaluator = self._evaluator.changed(steps=[*kept, name])
                result = evaluator.run(plain.name, plain.config, plain.opened)
            except MaseError as error:
                _LOG.debug("%s is left out: %s", name, error)
                continue
            gain = result.sqnr_db - best.sqnr_db
            tried.append(Tried(name, gain))
            if gain >= LEAST_DB and result.cost.weighed <= MORE * plain.cost.weighed:
                kept.append(name)
                best = result
        again, unprepared = replace(fitted, result=best), replace(fitted, tried=tried)
        if kept and self._goal.bounds_loss:
            # Choices anew, each prepared.
            self._evaluator, self._tried = self._evaluator.changed(steps=kept), {}
            try:
                again = self._chosen()
            except MaseError as error:
                _LOG.debug("no formats keep the goal with %s: %s", ", ".join(kept), error)
                return unprepared
        if not kept or not is_better(again, fitted):
            return unprepared
        tried = [replace(item, kept=item.name in again.result.steps) for item in tried]
        return replace(again, tried=tried, front=[*fitted.front, fitted.result])

    def together(
        self, chosen: Fitted, explorer: Explorer, interval: int, own: Collection[str]
    ) -> Fitted | None:
        """Return formats and lanes that are chosen in one problem; None where they are no better.

        Args:
            chosen: the result of this choice, with a table of parallelism.
            explorer: lanes by node.
            interval: cycles of an inference, at most.
            own: names of the nodes that a table of parallelism may have.
        """
        assert isinstance(chosen.parallelism, Mapping)
        wanted = self._goal.min_sqnr
        left = 0.0 if wanted is None else chosen.result.assured_db - wanted
        begin, bound = (self._best, chosen.parallelism), self._best.noise
        for _ in range(TOGETHER):
            bound = bound * 10.0 ** (left / 10.0)
            choice = choose_together(
                self._chooser, explorer, interval, bound, self._goal.budgets, begin
            )
            if choice is None:
                return None
            options, table = choice
            lanes = {key: value for key, value in table.items() if key == "default" or key in own}
            self._evaluator = self._evaluator.changed(parallelism=lanes)
            try:
                result = self._run(options, "formats and lanes together")
            except MaseError as error:
                _LOG.debug("formats and lanes together are left out: %s", error)
                return None
            if result.cost.weighed >= chosen.result.cost.weighed:
                return None
            if self._goal.holds(result):
                front = [*chosen.front, chosen.result]
                return replace(chosen, result=result, parallelism=lanes, front=front)
            beyond = 0.0 if wanted is None else min(result.assured_db - wanted, 0.0)
            left = -SLACK_DB if wanted is None else beyond - TIGHTER_DB
        return None

    def _chosen(self) -> Fitted:
        stage("choice")
        if not self._goal.bounds_loss:
            self._best, result = self._within_budgets()
        elif self._goal.min_sqnr is not None:
            self._best, result = self._by_sqnr(self._goal.min_sqnr)
        else:
            self._best, result = self._by_drop()
        result = self._evaluator.figures.whole(result)
        front = [item for _, item in self._tried.values() if item.name != result.name]
        return Fitted(self._mg.name, self._goal, result, front, parallelism=self._parallelism)

    def _advance(self, part: int, done: int, total: int) -> None:
        if self._progress:
            self._progress(part * PART + round(PART * done / max(total, 1)), PARTS * PART)

    def _reference(self) -> MaseGraph:
        """Return the graph in which nodes are priced.

        Raises:
            UnsupportedError: where the model has no hardware.
        """
        refusal: MaseError | None = None
        for width in REFERENCE_WIDTHS:
            config = uniform(self._mg, {"name": DEFAULT_FORMAT, "width": width})
            try:
                return with_lanes(self._evaluator.quantized(config), self._parallelism)
            except MaseError as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def _run(self, chosen: Chosen, name: str = "") -> Result:
        if name or chosen.options not in self._tried:
            arguments = self._mg, self._operands, chosen.options
            name = name or f"choice {len(self._tried) + 1}"
            config, opened = configuration(*arguments), configuration(*arguments, opened=True)
            result = self._evaluator.run(name, config, opened)
            result = replace(result, rows=self._rows(result, self._chooser.shares(chosen)))
            self._tried[chosen.options] = chosen, result
        return self._tried[chosen.options][1]

    def _legal(self, choose: Callable[[], Chosen | None]) -> tuple[Chosen, Result] | None:
        """Return a choice that has hardware, with its result; None where none is left.

        Only a whole graph shows what formats of neighbours ask of a node: options of nodes
        that it refuses are left out, with all that are as wide, and the choice is repeated.
        """
        while (chosen := choose()) is not None:
            try:
                return chosen, self._run(chosen)
            except UnsupportedError:
                config = configuration(self._mg, self._operands, chosen.options)
                problems = preflight(self._evaluator.quantized(config))
                _LOG.debug("a choice is refused: %s", "; ".join(map(str, problems)))
                if not self._chooser.narrow({item.node for item in problems}, chosen):
                    raise
        return None

    def _within_budgets(self) -> tuple[Chosen, Result]:
        """Return the best agreement within the budgets, of choices and of uniform formats.

        Only a whole graph shows what casts take: the share of the budgets that is left for
        the rest is bisected.
        """
        asked = self._goal.budgets
        low, high, share = 0.0, 1.0, 1.0
        for number in range(ROUNDS):
            budgets = {name: share * most for name, most in asked.items()}
            choice = self._legal(partial(self._chooser.solved, None, budgets))
            beyond = {} if choice is None else choice[1].cost.beyond(asked)
            low, high = (low, share) if beyond else (share, high)
            if low == high:
                break
            share = (low + high) / 2
            if beyond and not number:
                share = min(asked[name] / (asked[name] + more) for name, more in beyond.items())
            self._advance(1, number + 1, ROUNDS)
        for chosen in reversed(self._chooser.uniform()):
            with suppress(MaseError):
                if not self._run(chosen).cost.beyond(asked):
                    break
        within = [item for item in self._tried.values() if self._goal.holds(item[1])]
        if within:
            return max(within, key=lambda item: (item[1].sqnr_db, -(item[1].drop or 0.0)))
        coarsest = self._run(self._chooser.coarsest()).cost
        for name, most in asked.items():
            least = max(self._chooser.least(name), getattr(coarsest, name))
            if least > most:
                raise PrecisionError(
                    f"max_{name} {most:g} is too little: {self._mg.name} takes "
                    f"{math.ceil(least):g} in the cheapest formats, without queues"
                )
        raise self._contradiction()

    def _by_sqnr(self, wanted: float) -> tuple[Chosen, Result]:
        factor = torch.ones(len(self._measure.targets), dtype=torch.float64)
        for number in range(ROUNDS):
            bound = 10.0 ** (-wanted / 10.0) / factor
            choice = self._legal(partial(self._chooser.solved, bound, self._goal.budgets))
            if choice is None:
                _LOG.debug("no choice of formats by operand is within the bound")
                break
            chosen, result = choice
            left = result.assured_db - wanted
            if 0 <= left <= SLACK_DB or (number >= ROUNDS // 2 and left >= 0):
                break
            factor = self._corrected(chosen, result, number)
            self._advance(1, number + 1, ROUNDS)
        self._try_uniform()
        best = self._cheapest()
        if best is None:
            raise self._out_of_reach(f"min_sqnr {wanted:g}")
        return best

    def _cheapest(self) -> tuple[Chosen, Result] | None:
        kept = (item for item in self._tried.values() if self._goal.holds(item[1]))
        return min(kept, key=lambda item: item[1].cost.weighed, default=None)

    def _try_uniform(self) -> None:
        """Run one format for all, from the narrowest to one that keeps the goal.

        It needs no casts, which the choice of each format by itself does not see. Where noise is
        the goal, formats of far more than the best choice are not run; nor is what takes more.
        """
        best, noise, cost = self._cheapest(), math.inf, math.inf
        if best is not None:
            cost = best[1].cost.weighed
            if self._goal.min_sqnr is not None:
                noise = float(best[0].noise.max()) * UNIFORM_NOISE
        for chosen in self._chooser.uniform():
            if float(chosen.noise.max()) <= noise:
                with suppress(MaseError):
                    config = configuration(self._mg, self._operands, chosen.options)
                    if self._evaluator.takes(config) < cost and self._goal.holds(self._run(chosen)):
                        return

    def _corrected(self, chosen: Chosen, result: Result, number: int) -> Tensor:
        """Return measured over predicted noise, by target."""
        factors = []
        for place, target in enumerate(self._measure.targets):
            noise = min(measured_noise_of(self._mg, target, result), 1e3)
            factors.append(max(noise / max(float(chosen.noise[place]), 1e-300), 1e-6))
        # A little more each round, so that a target which is missed by little is met.
        return torch.tensor(factors, dtype=torch.float64) * (1.0 + 0.02 * (number + 1))

    def _by_drop(self) -> tuple[Chosen, Result]:
        assert self._goal.max_drop is not None
        finest, coarsest = self._chooser.finest(), self._chooser.coarsest()
        ends = (math.log(float(item.noise.sum()) + 1e-30) for item in (finest, coarsest))
        low, high = ends if self._kept is None else (self._kept, self._kept + FURTHER)
        steps = max(math.ceil(math.log2((high - low) / NEAR)), 1)
        for number in range(steps):
            middle = (low + high) / 2
            bound = torch.full((len(self._measure.targets),), math.exp(middle), dtype=torch.float64)
            choice = self._legal(partial(self._chooser.solved, bound, self._goal.budgets))
            kept = choice is None or self._goal.holds(choice[1])
            low, high = (middle, high) if kept else (low, middle)
            self._advance(1, number + 1, steps)
        self._kept = low
        self._try_uniform()
        best = self._confirmed() or self._confirmed(finest)
        if best is None:
            raise self._out_of_reach(f"max_drop {self._goal.max_drop:g}")
        return best

    def _confirmed(self, *more: Chosen) -> tuple[Chosen, Result] | None:
        """Return the cheapest result that keeps the goal on all samples to compare on."""
        for chosen in more:
            self._run(chosen)
        while (best := self._cheapest()) is not None:
            chosen, result = best
            whole = self._evaluator.figures.whole(result)
            if whole is result:
                return best
            self._tried[chosen.options] = chosen, whole
        return None

    def _contradiction(self) -> PrecisionError:
        return PrecisionError(
            f"no formats of {self._mg.name} keep {self._goal} at once; raise one of them"
        )

    def _out_of_reach(self, asked: str) -> PrecisionError:
        if self._goal.budgets:
            return self._contradiction()
        finest = self._chooser.finest()
        result, shares = self._run(finest), self._chooser.shares(finest)
        place = max(range(len(shares)), key=shares.__getitem__)
        operand = self._operands[place]
        number_format = operand.options[finest.options[place]].number_format
        by_sqnr = self._goal.min_sqnr is not None
        reached = f"{result.assured_db:.1f} dB" if by_sqnr else f"{result.drop:.2f} points"
        return PrecisionError(
            f"{asked} is out of reach for {self._mg.name}: the finest formats that are tried give "
            f"{reached} on samples they were not chosen on; {operand.name} of {operand.node.name} "
            f"({location(operand.node)}) limits it, which as {number_format} adds "
            f"{100 * shares[place]:.0f} % of the error"
        )

    def _rows(self, result: Result, shares: Sequence[float] | None = None) -> list[Row]:
        total = max(result.cost.weighed, 1e-9)
        rows, seen = [], set[str]()
        for place, operand in enumerate(self._operands):
            name = operand.node.name
            call = result.graph.call(result.graph.node(name))
            number_format = {**call.operands, **call.results}[operand.name].format
            assert number_format is not None
            cost = None if name in seen else result.costs.get(name, Estimate()).weighed / total
            seen.add(name)
            share = None if shares is None else shares[place]
            bits = number_format.bits_per_element
            rows.append(Row(name, operand.name, str(number_format), bits, share, cost))
        return rows


def is_better(fitted: Fitted, other: Fitted) -> bool:
    """Return true for formats that take surely less, or agree better where that is not asked."""
    if fitted.goal.bounds_loss:
        return fitted.result.cost.weighed < LESS * other.result.cost.weighed
    return fitted.result.sqnr_db > other.result.sqnr_db
