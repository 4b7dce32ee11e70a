"""`search`: trials of number formats and parallelism, in a study that survives its workers."""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mase_hw._config_file import write_config
from mase_hw._registry import nearest
from mase_hw._results import check_result, result_file
from mase_hw.data import Split
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError, SearchError
from mase_hw.graph import MaseGraph, trace
from mase_hw.models.builder import build, check_arguments
from mase_hw.passes.compression.skip import skip_transform_pass
from mase_hw.search._values import Proposer
from mase_hw.search.objective import (
    METRICS,
    Candidate,
    Evaluator,
    Measurement,
    Recipe,
    Report,
    Samples,
)
from mase_hw.search.pruners import make_pruner
from mase_hw.search.samplers import sampler_factory
from mase_hw.search.space import Space, propose_architecture
from mase_hw.search.storage import (
    ERROR,
    HEARTBEAT_SECONDS,
    LOCK_TIMEOUT_SECONDS,
    Store,
    recover,
    reported,
    storage_url,
    used,
)
from mase_hw.training import TASKS, Trainer, task_of
from mase_hw.training import Task as TrainingTask

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

logger = logging.getLogger(__name__)

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
    config: Mapping[str, Any]
    builder: str | Callable[..., Any] | None = None
    own: Objective | None = None
    own_directions: tuple[str, ...] = ("maximize",)
    callbacks: tuple[Callable[..., None], ...] = ()
    evaluator: Evaluator = field(init=False)
    space: Space = field(init=False)
    _graphs: dict[str, MaseGraph] = field(init=False, default_factory=dict)
    _candidate: Candidate | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.config) - set(TABLES))
        if unknown:
            raise ConfigError(f"search has no {unknown[0]!r}; {nearest(unknown[0], TABLES)}")
        if self.own is not None and "objectives" in self.config:
            raise ConfigError("search: give objectives in the configuration, or one of your own")
        for direction in self.own_directions if self.own is not None else ():
            if direction not in ("maximize", "minimize"):
                raise ConfigError(
                    f"search: a direction is {direction!r}; allowed: maximize, minimize"
                )
        named = () if self.own is not None else self.objectives
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
        self.sampler()
        self.pruner()
        if not self.changes_weights:
            object.__setattr__(self, "_candidate", evaluator.prepare(graph))

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
        """What the scores are trained towards and measured by."""
        return task_of(self.config.get("task", "classification"))

    @property
    def changes_weights(self) -> bool:
        """True when a trial's weights are not those of the model that was given."""
        tables = self.config.get("space", {})
        trains = "training" in self.config or "finetuning" in self.config
        changes = any(bool(tables.get(name)) for name in ("architecture", "skip", "prune"))
        return trains or changes

    @property
    def trials(self) -> int:
        """Trials of the whole study; a grid has no more than its points."""
        asked: int = self.config.get("trials", 50)
        if self.config.get("sampler") == "grid" and hasattr(self, "space"):
            points = 1
            for values in self.space.grid().values():
                points *= len(values)
            return min(asked, points)
        return asked

    def sampler(self) -> Callable[[int], Any]:
        """Return the function from the number of trials to the sampler of the next."""
        return sampler_factory(
            str(self.config.get("sampler", "tpe")),
            self.space,
            int(self.config.get("seed", 0)),
            self.config.get("sampler_options", {}),
        )

    def pruner(self) -> Any:
        """Return what ends trials early."""
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

    def identity(self) -> dict[str, Any]:
        """Return what makes this search the same as another, number of trials and sampler aside."""
        digest = hashlib.sha256()
        for name, value in sorted(self.mg.model.state_dict().items()):
            digest.update(name.encode() + value.detach().contiguous().numpy().tobytes())
        digest.update(self.samples.digest().encode())
        space = json.dumps(self.config.get("space", {}), sort_keys=True, default=list)
        known = {
            "model": self.mg.name,
            "weights and samples": digest.hexdigest()[:16],
            "objectives": list(self.objectives),
            "constraints": self.constraints,
            "observer": self.config.get("observer", "minmax"),
            "space": space,
        }
        trained = {key: self.config.get(key) for key in ("training", "finetuning")}
        known |= {key: dict(value) for key, value in trained.items() if value is not None}
        return known | ({"task": self._task.name} if "task" in self.config else {})

    def run_trial(self, trial: Any) -> tuple[float, ...]:
        """Measure what a trial proposes; an error is recorded and fails the trial."""
        import optuna

        def report(step: int, value: float) -> None:
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned

        try:
            reports = self._prunes and self.own is None
            found, parallelism = self.measure(trial, report if reports else None)
            values = dict(found.values) | self._own_values(found.quantized, trial)
        except optuna.TrialPruned:
            raise
        except Exception as error:
            trial.set_user_attr(ERROR, f"{type(error).__name__}: {error}")
            raise
        trial.set_user_attr("metrics", values)
        # One attribute: each is a transaction of the storage.
        result = {
            "config": found.config,
            "parallelism": parallelism,
            "predictions": found.digest,
            "without_hardware": list(found.without_hardware),
        }
        trial.set_user_attr(RESULT, result)
        for name, bound in self.constraints.items():
            sign = -1.0 if METRICS[name] == "maximize" else 1.0
            trial.set_constraint(name, sign * (found.values[name] - bound))
        return tuple(values[name] for name in self.objectives)

    def _own_values(self, mg: MaseGraph, trial: Any) -> dict[str, float]:
        """Return what an objective of one's own says of a quantised graph.

        Raises:
            SearchError: when it returns something else than its numbers.
        """
        if self.own is None:
            return {}
        found = self.own(mg, trial)
        numbers = found if isinstance(found, tuple | list) else (found,)
        try:
            values = [float(number) for number in numbers]
        except (TypeError, ValueError):
            values = []
        if len(values) != len(self.own_directions) or any(map(math.isnan, values)):
            raise SearchError(
                f"the objective returned {found!r}; expected are {len(self.own_directions)} "
                "number(s), one a direction"
            )
        return dict(zip(self.objectives, values, strict=True))

    def measure(
        self, trial: Proposer, report: Report | None = None
    ) -> tuple[Measurement, dict[str, Any]]:
        """Return what a trial's proposals give, and their parallelism."""
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
        """Return the canonical graph of a trial's architecture, and its space."""
        if not self.space.architecture:
            return self._graphs["{}"], self.space
        assert self.builder is not None
        arguments = propose_architecture(self.space.architecture, trial)
        key = json.dumps(arguments, sort_keys=True)
        if key not in self._graphs:
            module = build(self.builder, arguments)
            if len(self._graphs) > KEPT_GRAPHS:
                self._graphs.pop(list(self._graphs)[1])
            self._graphs[key] = canonicalize(
                trace(module, self.mg.example_inputs, name=self.mg.name),
                Space.formats(self.config["space"]),
            )
        known = [node.name for node in self._graphs["{}"].nodes]
        return self._graphs[key], Space.parse(self._graphs[key], self.config["space"], known)

    def _trainer(self, name: str) -> tuple[Trainer | None, bool]:
        """Return how a table trains, and whether it learns steps."""
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
        for key in table:
            if key not in legal:
                raise ConfigError(f"search: {name} has no {key!r}; {nearest(key, legal)}")
        options = dict(table)
        learns = options.pop("learn_steps", False)
        if not isinstance(learns, bool):
            raise ConfigError(f"search: learn_steps is {learns!r}; allowed: true, false")
        return Trainer(**options), learns


@dataclass(frozen=True)
class TrialResult:
    """A finished trial.

    Attributes:
        number: of the trial.
        metrics: what was measured.
        config: number formats, for `emit-verilog`.
        parallelism: likewise; empty when it was not searched.
        predictions: hash of the classes it gave to the samples.
        parameters: what it proposed.
        without_hardware: what has no hardware in formats of this kind; empty when it emits.
    """

    number: int
    metrics: Mapping[str, float]
    config: Mapping[str, Any]
    parallelism: Mapping[str, Any]
    predictions: str
    parameters: Mapping[str, Any]
    without_hardware: Sequence[str] = ()

    @classmethod
    def of(cls, trial: FrozenTrial) -> TrialResult:
        """Read a trial of the storage."""
        metrics, known = trial.user_attrs["metrics"], trial.user_attrs[RESULT]
        return cls(trial.number, metrics, **known, parameters=dict(trial.params))

    def write(self, path: Path) -> Path:
        """Write the file that `emit-verilog --config` takes."""
        tables: dict[str, Any] = {"quantize": self.config}
        if self.parallelism:
            tables["parallelism"] = self.parallelism
        return write_config(path, tables)


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        best: the best trial; of several objectives the front, best in the first one first.
        trials: number of trials that finished.
        failed: error of every failed trial by number.
        folder: where the files lie: `best.toml`, `front_<n>.toml`, `trials.csv`; where trials
            change weights also `best.mase`, `front_<n>.mase`, the graphs in real numbers.
        storage: URL of the study, which optuna-dashboard reads.
    """

    best: tuple[TrialResult, ...]
    trials: int
    failed: Mapping[int, str]
    folder: Path
    storage: str


def search(
    model: nn.Module | MaseGraph,
    config: Mapping[str, Any],
    *,
    output: str | Path,
    example_inputs: Any = None,
    samples: Any = None,
    storage: str | Path | None = None,
    workers: int = 1,
    dask: str | None = None,
    builder: str | Callable[..., Any] | None = None,
    objective: Objective | None = None,
    directions: str | Sequence[str] = "maximize",
    callbacks: Sequence[Callable[..., None]] = (),
    progress: Progress | None = None,
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
    heartbeat_seconds: int = HEARTBEAT_SECONDS,
) -> SearchResult:
    """Search the number formats and the parallelism of a model.

    A search that was stopped, however it was, goes on where it was when it is started again with
    the same storage: finished trials count, those under way are tried again.

    Args:
        model: a module with `example_inputs`, or a captured graph.
        config: `space` (see `mase_hw.search.space`), `objectives` and `constraints` (metric to
            bound) out of `METRICS`, `sampler`, `sampler_options`, `pruner`, `pruner_options`,
            `trials`, `seed`, `observer`, `task`, as `Trainer` has it; `training` and `finetuning`,
            arguments of `Trainer` for the model before and the quantised graph after compression,
            where `learn_steps` trains the scales of the number formats too.
        output: folder of the results.
        example_inputs: see `mase_hw.trace`.
        samples: `Samples`, or data as `mase_hw.data.Split.read` takes them; needed for accuracy.
        storage: SQLAlchemy URL or SQLite file; `study.db` in `output` when not given.
        workers: processes on this machine, or with `dask` on all.
        dask: address of a Dask scheduler, whose workers run the trials.
        builder: the function whose arguments the table `architecture` searches: a registered name,
            `file.py:factory`, or itself, with one worker.
        objective: called with the quantised graph and Optuna's trial, returns a number or a tuple
            of them, which are optimised in place of `objectives`; it may report to the trial and
            raise `optuna.TrialPruned`. It runs in this process: with one worker.
        directions: `maximize` or `minimize` for each of its numbers.
        callbacks: called by Optuna with the study and every finished trial.
        progress: called with (finished trials, trials).
        lock_timeout_seconds: how long a locked SQLite file is waited for.
        heartbeat_seconds: how often a running trial shows other machines that it lives.

    Raises:
        ConfigError: for a bad configuration or space.
        DataError: for data that cannot be measured on.
        SearchError: when the storage cannot be used, workers keep dying, or no trial succeeded.
    """
    if workers < 1:
        raise ConfigError(f"workers is {workers}; allowed: a number from 1")
    mg = model if isinstance(model, MaseGraph) else trace(model, example_inputs)
    own = objective is not None or callbacks or callable(builder)
    if own and (workers > 1 or dask is not None):
        raise ConfigError("functions of one's own run in this process; search with one worker")
    ways = (directions,) if isinstance(directions, str) else tuple(directions)
    task = Task(mg, _samples(samples), config, builder, objective, ways, tuple(callbacks))
    folder = Path(output)
    url = storage_url(storage if storage is not None else folder / "study.db")
    store = Store(url, mg.name, lock_timeout_seconds, heartbeat_seconds)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("trials.csv", "best.toml"):
        check_result(folder / name)
    study = store.open(task.directions, task.identity())
    from mase_hw.search.worker import FileTurn, run_processes, run_trials

    with reported(url):
        recover(study)
        if dask is not None:
            from mase_hw.search.farm import run_farm

            run_farm(task, store, study, dask, workers, progress)
        elif workers == 1:
            run_trials(task, study, FileTurn(folder / "study.lock"), progress)
        else:
            run_processes(task, store, study, folder, workers, progress)
        return _results(task, study, folder, url)


def _samples(given: Any) -> Samples:
    if given is None or isinstance(given, Samples):
        return given or Samples()
    return Samples.of(Split.read(given))


def finished(trials: Sequence[FrozenTrial]) -> int:
    """Return how many trials have ended, those of dead workers aside."""
    return used([trial for trial in trials if trial.state.is_finished()])


def _results(task: Task, study: Study, folder: Path, url: str) -> SearchResult:
    trials = study.get_trials(deepcopy=False)
    failed = {
        trial.number: str(trial.user_attrs.get(ERROR, "the worker died"))
        for trial in trials
        if trial.state.name == "FAIL"
    }
    _write_table(task, trials, folder / "trials.csv")
    best = [TrialResult.of(trial) for trial in _best(task, study)]
    if not best:
        complete = sum(trial.state.name == "COMPLETE" for trial in trials)
        reason = (
            f"none of {complete} trials satisfies the constraints {task.constraints}"
            if complete
            else f"all {len(failed)} trials failed; the last: {list(failed.values())[-1:]}"
        )
        raise SearchError(f"the search found nothing: {reason}")
    names = {"best": best[0]}
    if len(task.objectives) > 1:
        names |= {f"front_{number}": result for number, result in enumerate(best)}
    for name, result in names.items():
        result.write(folder / f"{name}.toml")
        if task.changes_weights:
            with result_file(folder / f"{name}.mase") as made:
                _replay(task, result).save(made)
    return SearchResult(tuple(best), finished(trials), failed, folder, url)


def _replay(task: Task, result: TrialResult) -> MaseGraph:
    """Return the graph of a trial, made again: it is trained where the trial was."""
    from optuna.trial import FixedTrial

    found, _ = task.measure(FixedTrial(dict(result.parameters)))
    if found.digest != result.predictions:
        logger.warning(
            "trial %d, made again on this machine, gives other classes: %s for %s",
            result.number,
            found.values,
            result.metrics,
        )
    return found.mg


def _best(task: Task, study: Study) -> list[FrozenTrial]:
    if len(task.objectives) == 1:
        try:
            return [study.best_trial]
        except ValueError:
            return []
    sign = -1.0 if task.directions[0] == "maximize" else 1.0
    distinct = {tuple(trial.values): trial for trial in reversed(study.best_trials)}
    return sorted(distinct.values(), key=lambda trial: sign * trial.values[0])


def _write_table(task: Task, trials: list[FrozenTrial], path: Path) -> None:
    # What depends on the architecture is in some trials only.
    names = [dimension.name for dimension in task.space.dimensions]
    dimensions = list(dict.fromkeys([*names, *(key for trial in trials for key in trial.params)]))
    metrics = sorted({key for trial in trials for key in trial.user_attrs.get("metrics", {})})
    with result_file(path) as made, made.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["trial", "state", *metrics, *dimensions, ERROR])
        for trial in trials:
            known = trial.user_attrs
            values = [known.get("metrics", {}).get(name, "") for name in metrics]
            params = [trial.params.get(name, "") for name in dimensions]
            error = known.get(ERROR, "")
            rows.writerow([trial.number, trial.state.name.lower(), *values, *params, error])


def save_samples(samples: Samples, path: Path) -> None:
    """Write what a worker process reads."""
    torch.save({key: value for key, value in vars(samples).items() if value is not None}, path)


def load_samples(path: Path) -> Samples:
    """Read what `save_samples` wrote."""
    return Samples(**torch.load(path, weights_only=True))
