"""A search that is checked, and its trials."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mase_hw._checks import check_bool, check_choice, check_integer, check_keys
from mase_hw._config_file import read_formats
from mase_hw._kinds import Record, Table
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError, SearchError
from mase_hw.graph import MaseGraph, trace
from mase_hw.models.builder import build, check_arguments
from mase_hw.passes.compression.skip import skip_transform_pass
from mase_hw.registry import nearest
from mase_hw.search.objective import (
    METRICS,
    Candidate,
    Evaluator,
    Measurement,
    Recipe,
    Report,
    Samples,
)
from mase_hw.search.samplers import make_pruner, sampler_factory
from mase_hw.search.space import Space, around
from mase_hw.search.storage import ERROR, used
from mase_hw.search.values import proposed, spelled
from mase_hw.training import TASKS, Trainer, task_of

if TYPE_CHECKING:
    from optuna.trial import BaseTrial, FrozenTrial, Trial

Progress = Callable[[int, int], None]
Objective = Callable[[MaseGraph, Any], float | Sequence[float]]
# Name of the result of a user's objective.
OWN = "objective"
DIRECTIONS = ("maximize", "minimize")
TABLES = (
    "sampler",
    "sampler_options",
    "pruner",
    "pruner_options",
    "trials",
    "seed",
    "objectives",
    "constraints",
    "observer",
    "task",
    "space",
    "start",
    "training",
    "finetuning",
)
# The attribute of a trial that is handed to emission.
RESULT = "result"
# Graphs of other architectures that a process keeps.
KEPT_GRAPHS = 16


class Task:
    """One search, checked: everything that a worker needs.

    Args:
        mg: the captured model.
        samples: data.
        config: the search's configuration; a `start` gets a space of formats around it.
        builder: name of the model whose architecture is searched, see `load_builder`.
        own: a user's objective, in place of those of the configuration.
        own_directions: `maximize` or `minimize` for each number that it returns.
        callbacks: called by Optuna with the study and every finished trial.

    Attributes:
        space: the dimensions.
        objectives: names of the metrics that are optimised.
        directions: `maximize` or `minimize` for each of them.
        constraints: the bound of every metric that has one: the least of what is maximized, else
            the most.
        trials: of the whole study; a grid has no more than its points.
        sampler: from the number of trials to the sampler of the next.
        pruner: ends trials early.
        changes_weights: true when a trial's weights are not those of the searched model.

    Raises:
        ConfigError: for a bad configuration or space.
        DataError: for data that cannot be measured on.
        UnsupportedError: for figures of hardware of a model that has none in any format.
    """

    def __init__(
        self,
        mg: MaseGraph,
        samples: Samples,
        config: Table,
        builder: str | Callable[..., Any] | None = None,
        own: Objective | None = None,
        own_directions: Sequence[str] = ("maximize",),
        callbacks: Sequence[Callable[..., None]] = (),
    ) -> None:
        check_keys("search", config, TABLES)
        config = _with_start(config)
        self.mg, self.samples, self.config, self.builder = mg, samples, config, builder
        self.own, self.callbacks = own, callbacks
        self._task = task_of(config.get("task", "classification"))
        figure = self._task.metric.name
        self.constraints = {k: float(v) for k, v in config.get("constraints", {}).items()}
        if own is None:
            self.objectives = tuple(config.get("objectives", (figure,)))
            self._check_metrics((*self.objectives, *self.constraints))
            self.directions = tuple(METRICS[name] for name in self.objectives)
        else:
            if "objectives" in config:
                raise ConfigError(
                    "search: give objectives in the configuration, or one of your own"
                )
            for direction in own_directions:
                check_choice("search: a direction", direction, DIRECTIONS)
            self._check_metrics(tuple(self.constraints))
            count, self.directions = len(own_directions), tuple(own_directions)
            self.objectives = (OWN,) if count == 1 else tuple(f"{OWN}_{n}" for n in range(count))
        if not self.objectives or len(set(self.objectives)) < len(self.objectives):
            raise ConfigError(f"search: objectives are {list(self.objectives)}; give each once")
        self.trials = check_integer("search: trials", config.get("trials", 50), 1)
        # Metrics that cost nothing are always recorded.
        recorded = (*((figure,) if samples.labels is not None else ()), "average_bits")
        named = () if own is not None else self.objectives
        metrics = tuple(dict.fromkeys((*named, *self.constraints, *recorded, "memory_bits")))
        recipe = Recipe(self._trainer("training")[0], *self._trainer("finetuning"))
        observer = str(config.get("observer", "minmax"))
        self._evaluator = Evaluator(metrics, samples, observer, recipe, self._task)
        tables = config.get("space", {})
        graph = canonicalize(mg, Space.formats(tables))
        self._evaluator.check(graph)
        if not (tables.get("architecture") or tables.get("skip")):
            self._evaluator.check_hardware(graph)
        self.space = Space.parse(graph, tables)
        self._graphs = {"{}": graph}
        self._check_space()
        sampler, seed = str(config.get("sampler", "tpe")), int(config.get("seed", 0))
        if sampler == "grid":
            self.trials = min(self.trials, math.prod(map(len, self.space.grid().values())))
        self.sampler = sampler_factory(sampler, self.space, seed, config.get("sampler_options", {}))
        pruner = str(config.get("pruner", "nop"))
        self._prunes = pruner != "nop" and own is None
        if self._prunes and self.objectives != (figure,):
            raise ConfigError(
                f"search: a pruner compares {figure} while a trial runs, and the objectives are "
                f"{', '.join(self.objectives)}; allowed: {figure} alone"
            )
        self.pruner = make_pruner(pruner, config.get("pruner_options", {}))
        trains = "training" in config or "finetuning" in config
        changes = any(bool(tables.get(name)) for name in ("architecture", "skip", "prune"))
        self.changes_weights = trains or changes
        self._candidate = None if self.changes_weights else self._evaluator.prepare(graph)

    def _check_metrics(self, names: Sequence[str]) -> None:
        of_tasks = {task.metric.name for task in TASKS.values()}
        for name in names:
            if name not in METRICS:
                raise ConfigError(f"search: no metric is called {name!r}; {nearest(name, METRICS)}")
            if name in of_tasks - {self._task.metric.name}:
                raise ConfigError(
                    f"search: the task {self._task.name} is measured by {self._task.metric.name}, "
                    f"not {name}; give the task whose metric it is"
                )

    def _check_space(self) -> None:
        if not self.space.dimensions:
            raise ConfigError(
                "search: the space has no dimension: no list and no range, or none for a node of "
                f"{self.mg.name}"
            )
        if self.space.architecture:
            if self.builder is None:
                raise ConfigError(
                    "search: the space has an architecture, and the model is a graph of one; give "
                    "a registered name or file.py:factory"
                )
            check_arguments(self.builder, self.space.architecture)

    def _trainer(self, name: str) -> tuple[Trainer | None, bool]:
        table = self.config.get(name)
        if table is None:
            return None, False
        legal = ["epochs", "learning_rate", "batch_size", "seed"]
        legal += ["learn_steps"] if name == "finetuning" else []
        if not isinstance(table, Mapping):
            raise ConfigError(
                f"search: {name} is {table!r}; allowed: a table of {', '.join(legal)}"
            )
        check_keys(f"search: {name}", table, legal)
        options = dict(table)
        learns = options.pop("learn_steps", False)
        check_bool("search: learn_steps", learns)
        return Trainer(**options), learns

    def first_parameters(self) -> dict[str, Any] | None:
        """Return the proposals of the first trial of a search that has a `start`."""
        start = self.config.get("start")
        return None if start is None else self.space.first_parameters(self._graphs["{}"], start)

    def identity(self) -> Record:
        """Settings that make this search the same as another, but trials and sampler."""
        digest = hashlib.sha256()
        for name, value in sorted(self.mg.model.state_dict().items()):
            digest.update(name.encode() + value.detach().contiguous().numpy().tobytes())
        digest.update(self.samples.digest().encode())
        identity = {
            "model": self.mg.name,
            "weights and samples": digest.hexdigest()[:16],
            "objectives": list(self.objectives),
            "constraints": self.constraints,
            "observer": self.config.get("observer", "minmax"),
            "space": json.dumps(self.config.get("space", {}), sort_keys=True, default=spelled),
        }
        if self.config.get("start") is not None:
            identity["start"] = json.dumps(self.config["start"], sort_keys=True, default=list)
        for key in ("training", "finetuning"):
            if self.config.get(key) is not None:
                identity[key] = dict(self.config[key])
        return identity | ({"task": self._task.name} if "task" in self.config else {})

    def run_trial(self, trial: Trial) -> tuple[float, ...]:
        """Measure a trial's proposals; an error is recorded and fails the trial."""
        import optuna

        def report(step: int, value: float) -> None:
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned

        try:
            measured, parallelism = self.measure(trial, report if self._prunes else None)
            values = dict(measured.values) | self._own_values(measured.quantized, trial)
        except optuna.TrialPruned:
            raise
        except Exception as error:
            trial.set_user_attr(ERROR, f"{type(error).__name__}: {error}")
            raise
        trial.set_user_attr("metrics", values)
        # One attribute: each is a transaction of the storage.
        result = {
            "config": measured.config,
            "parallelism": parallelism,
            "predictions": measured.digest,
            "without_hardware": list(measured.without_hardware),
        }
        trial.set_user_attr(RESULT, result)
        for name, bound in self.constraints.items():
            sign = -1.0 if METRICS[name] == "maximize" else 1.0
            trial.set_constraint(name, sign * (measured.values[name] - bound))
        return tuple(values[name] for name in self.objectives)

    def _own_values(self, mg: MaseGraph, trial: object) -> dict[str, float]:
        """Values of a user's objective for a quantised graph.

        Raises:
            SearchError: when it returns something else than its numbers.
        """
        if self.own is None:
            return {}
        returned = self.own(mg, trial)
        numbers = returned if isinstance(returned, tuple | list) else (returned,)
        try:
            values = [float(number) for number in numbers]
        except (TypeError, ValueError):
            values = []
        if len(values) != len(self.directions) or any(map(math.isnan, values)):
            raise SearchError(
                f"the objective returned {returned!r}; expected are {len(self.directions)} "
                "number(s), one a direction"
            )
        return dict(zip(self.objectives, values, strict=True))

    def measure(self, trial: BaseTrial, report: Report | None = None) -> tuple[Measurement, Record]:
        """Measure a trial's proposals; also return their parallelism."""
        candidate: Candidate | None = self._candidate
        skipped: list[str] = []
        space = self.space
        if candidate is None:
            mg, space = self._architecture(trial)
            skipped = space.propose_skips(trial)
            mg = skip_transform_pass(mg, {"nodes": skipped})[0]
            prunings = space.propose_prunings(trial, skipped)
            candidate = self._evaluator.prepare(mg, prunings, report)
        config, parallelism = space.propose(trial, skipped)
        return self._evaluator.measure(candidate, config, parallelism, report), parallelism

    def _architecture(self, trial: BaseTrial) -> tuple[MaseGraph, Space]:
        if not self.space.architecture:
            return self._graphs["{}"], self.space
        assert self.builder is not None
        arguments = proposed(self.space.architecture, trial)
        key, tables = json.dumps(arguments, sort_keys=True, default=spelled), self.config["space"]
        if key not in self._graphs:
            if len(self._graphs) > KEPT_GRAPHS:
                self._graphs.pop(list(self._graphs)[1])
            module = build(self.builder, arguments)
            mg = trace(module, self.mg.example_inputs, name=self.mg.name)
            self._graphs[key] = canonicalize(mg, Space.formats(tables))
        names = [node.name for node in self._graphs["{}"].nodes]
        return self._graphs[key], Space.parse(self._graphs[key], tables, names)


def _with_start(config: Table) -> Table:
    """Return a configuration whose `start` is read, with a space of formats around it.

    Raises:
        ConfigError: for a start that is no configuration, or a file without number formats.
    """
    start = config.get("start")
    if start is None:
        return config
    if not isinstance(start, str | Path | Mapping):
        raise ConfigError(f"search: start is {start!r}; allowed: number formats, or their file")
    formats = start if isinstance(start, Mapping) else read_formats(start)
    space = {"quantize": around(formats), **config.get("space", {})}
    return {**config, "start": formats, "space": space}


def finished(trials: Sequence[FrozenTrial]) -> int:
    """Count the trials that have ended, those of dead workers aside."""
    return used([trial for trial in trials if trial.state.is_finished()])
