"""A search that is checked: what every worker needs to run its trials."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mase_hw._checks import check_bool, check_keys
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
from mase_hw.search.space import Space, proposed
from mase_hw.search.storage import ERROR, used
from mase_hw.search.values import Proposer, spelled
from mase_hw.training import TASKS, Trainer, task_of
from mase_hw.training import Task as TrainingTask

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial, Trial

Progress = Callable[[int, int], None]
Objective = Callable[[MaseGraph, Any], float | Sequence[float]]
# Name of what an objective of one's own returns.
OWN = "objective"
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
# What a trial's attribute of this name holds is handed to emission.
RESULT = "result"
# Graphs of other architectures that a process keeps.
KEPT_GRAPHS = 16


@dataclass(frozen=True)
class Task:
    """One search, checked: everything that a worker needs.

    Attributes:
        mg: the captured model.
        samples: data.
        config: the search's configuration.
        builder: name of the model whose architecture is searched, see `load_builder`.
        own: an objective of one's own, in place of those of the configuration.
        own_directions: `maximize` or `minimize` for each number that it returns.
        callbacks: called by Optuna with the study and every finished trial.
    """

    mg: MaseGraph
    samples: Samples
    config: Table
    builder: str | Callable[..., Any] | None = None
    own: Objective | None = None
    own_directions: tuple[str, ...] = ("maximize",)
    callbacks: tuple[Callable[..., None], ...] = ()
    evaluator: Evaluator = field(init=False)
    space: Space = field(init=False)
    _graphs: dict[str, MaseGraph] = field(init=False, default_factory=dict)
    _candidate: Candidate | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._check_tables()
        named = () if self.own is not None else self.objectives
        self._check_metrics(named)
        metrics = tuple(dict.fromkeys((*named, *self.constraints, *self.recorded)))
        training, _ = self._trainer("training")
        recipe = Recipe(training, *self._trainer("finetuning"))
        observer = str(self.config.get("observer", "minmax"))
        evaluator = Evaluator(metrics, self.samples, observer, recipe, self._task)
        graph = canonicalize(self.mg, Space.formats(self.config.get("space", {})))
        evaluator.check(graph)
        object.__setattr__(self, "evaluator", evaluator)
        object.__setattr__(self, "space", Space.parse(graph, self.config.get("space", {})))
        self._graphs["{}"] = graph
        self._check_space()
        self.sampler()
        self.pruner()
        if not self.changes_weights:
            object.__setattr__(self, "_candidate", evaluator.prepare(graph))

    def _check_tables(self) -> None:
        check_keys("search", self.config, TABLES)
        if self.own is not None and "objectives" in self.config:
            raise ConfigError("search: give objectives in the configuration, or one of your own")
        for direction in self.own_directions if self.own is not None else ():
            if direction not in ("maximize", "minimize"):
                raise ConfigError(
                    f"search: a direction is {direction!r}; allowed: maximize, minimize"
                )

    def _check_metrics(self, named: Sequence[str]) -> None:
        of_tasks = {task.metric.name for task in TASKS.values()}
        for name in (*named, *self.constraints):
            if name not in METRICS:
                raise ConfigError(f"search: no metric is called {name!r}; {nearest(name, METRICS)}")
            if name in of_tasks - {self._task.metric.name}:
                raise ConfigError(
                    f"search: the task {self._task.name} is measured by {self._task.metric.name}, "
                    f"not {name}; give the task whose metric it is"
                )
        if not self.objectives or len(set(self.objectives)) < len(self.objectives):
            raise ConfigError(f"search: objectives are {list(self.objectives)}; give each once")
        if not isinstance(self.trials, int) or self.trials < 1:
            raise ConfigError(f"search: trials is {self.trials!r}; allowed: a number from 1")

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

    @property
    def objectives(self) -> tuple[str, ...]:
        """Names of the metrics that are optimised."""
        if self.own is not None:
            count = len(self.own_directions)
            return (OWN,) if count == 1 else tuple(f"{OWN}_{number}" for number in range(count))
        return tuple(self.config.get("objectives", (self._task.metric.name,)))

    @property
    def directions(self) -> tuple[str, ...]:
        """`maximize` or `minimize` for each objective."""
        if self.own is not None:
            return self.own_directions
        return tuple(METRICS[name] for name in self.objectives)

    @property
    def constraints(self) -> dict[str, float]:
        """The bound of every metric that has one: the least of what is maximized, else the most."""
        return {key: float(value) for key, value in self.config.get("constraints", {}).items()}

    @property
    def recorded(self) -> tuple[str, ...]:
        """Metrics that cost nothing and are always recorded."""
        labelled = self.samples.labels is not None
        return (*((self._task.metric.name,) if labelled else ()), "average_bits", "memory_bits")

    @property
    def _task(self) -> TrainingTask:
        return task_of(self.config.get("task", "classification"))

    @property
    def changes_weights(self) -> bool:
        """True when a trial's weights are not those of the searched model."""
        tables = self.config.get("space", {})
        trains = "training" in self.config or "finetuning" in self.config
        changes = any(bool(tables.get(name)) for name in ("architecture", "skip", "prune"))
        return trains or changes

    @property
    def trials(self) -> int:
        """Trials of the whole study; a grid has no more than its points."""
        asked: int = self.config.get("trials", 50)
        if self.config.get("sampler") == "grid" and hasattr(self, "space"):
            return min(asked, math.prod(map(len, self.space.grid().values())))
        return asked

    def sampler(self) -> Callable[[int], BaseSampler]:
        """Return the function from the number of trials to the sampler of the next."""
        return sampler_factory(
            str(self.config.get("sampler", "tpe")),
            self.space,
            int(self.config.get("seed", 0)),
            self.config.get("sampler_options", {}),
        )

    def pruner(self) -> BasePruner:
        """Pruner that ends trials early."""
        figure = self._task.metric.name
        if self._prunes and self.own is None and self.objectives != (figure,):
            raise ConfigError(
                f"search: a pruner compares {figure} while a trial runs, and the objectives are "
                f"{', '.join(self.objectives)}; allowed: {figure} alone"
            )
        name = str(self.config.get("pruner", "nop"))
        return make_pruner(name, self.config.get("pruner_options", {}))

    @property
    def _prunes(self) -> bool:
        return bool(self.config.get("pruner", "nop") != "nop")

    def identity(self) -> Record:
        """Settings that make this search the same as another, but trials and sampler."""
        digest = hashlib.sha256()
        for name, value in sorted(self.mg.model.state_dict().items()):
            digest.update(name.encode() + value.detach().contiguous().numpy().tobytes())
        digest.update(self.samples.digest().encode())
        space = json.dumps(self.config.get("space", {}), sort_keys=True, default=spelled)
        identity = {
            "model": self.mg.name,
            "weights and samples": digest.hexdigest()[:16],
            "objectives": list(self.objectives),
            "constraints": self.constraints,
            "observer": self.config.get("observer", "minmax"),
            "space": space,
        }
        if self.config.get("start") is not None:
            identity["start"] = json.dumps(self.config["start"], sort_keys=True, default=list)
        trained = {key: self.config.get(key) for key in ("training", "finetuning")}
        identity |= {key: dict(value) for key, value in trained.items() if value is not None}
        return identity | ({"task": self._task.name} if "task" in self.config else {})

    def run_trial(self, trial: Trial) -> tuple[float, ...]:
        """Measure what a trial proposes; an error is recorded and fails the trial."""
        import optuna

        def report(step: int, value: float) -> None:
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned

        try:
            reports = self._prunes and self.own is None
            measured, parallelism = self.measure(trial, report if reports else None)
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
        """Values of a user's own objective for a quantised graph.

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
        if len(values) != len(self.own_directions) or any(map(math.isnan, values)):
            raise SearchError(
                f"the objective returned {returned!r}; expected are {len(self.own_directions)} "
                "number(s), one a direction"
            )
        return dict(zip(self.objectives, values, strict=True))

    def measure(self, trial: Proposer, report: Report | None = None) -> tuple[Measurement, Record]:
        """Measure a trial's proposals; also return their parallelism."""
        if self._candidate is not None:
            config, parallelism = self.space.propose(trial)
            return self.evaluator.measure(self._candidate, config, parallelism, report), parallelism
        mg, space = self._architecture(trial)
        skipped = space.propose_skips(trial)
        mg = skip_transform_pass(mg, {"nodes": skipped})[0]
        candidate = self.evaluator.prepare(mg, space.propose_prunings(trial, skipped), report)
        config, parallelism = space.propose(trial, skipped)
        return self.evaluator.measure(candidate, config, parallelism, report), parallelism

    def _architecture(self, trial: Proposer) -> tuple[MaseGraph, Space]:
        if not self.space.architecture:
            return self._graphs["{}"], self.space
        assert self.builder is not None
        arguments = proposed(self.space.architecture, trial)
        key = json.dumps(arguments, sort_keys=True, default=spelled)
        if key not in self._graphs:
            module = build(self.builder, arguments)
            if len(self._graphs) > KEPT_GRAPHS:
                self._graphs.pop(list(self._graphs)[1])
            self._graphs[key] = canonicalize(
                trace(module, self.mg.example_inputs, name=self.mg.name),
                Space.formats(self.config["space"]),
            )
        names = [node.name for node in self._graphs["{}"].nodes]
        return self._graphs[key], Space.parse(self._graphs[key], self.config["space"], names)

    def _trainer(self, name: str) -> tuple[Trainer | None, bool]:
        table = self.config.get(name)
        if table is None:
            return None, False
        legal = ["epochs", "learning_rate", "batch_size", "seed"]
        if name == "finetuning":
            legal.append("learn_steps")
        if not isinstance(table, Mapping):
            raise ConfigError(
                f"search: {name} is {table!r}; allowed: a table of {', '.join(legal)}"
            )
        check_keys(f"search: {name}", table, legal)
        options = dict(table)
        learns = options.pop("learn_steps", False)
        check_bool("search: learn_steps", learns)
        return Trainer(**options), learns


def finished(trials: Sequence[FrozenTrial]) -> int:
    """Return how many trials have ended, those of dead workers aside."""
    return used([trial for trial in trials if trial.state.is_finished()])
