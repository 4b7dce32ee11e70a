"""`search`: trials of number formats and parallelism, in a study that survives its workers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from mase_hw._checks import check_integer
from mase_hw._config_file import write_formats
from mase_hw._results import result_file, result_folder, write_table
from mase_hw.data import Split
from mase_hw.errors import ConfigError, SearchError
from mase_hw.graph import MaseGraph, trace
from mase_hw.search.farm import run_farm
from mase_hw.search.objective import Samples
from mase_hw.search.storage import (
    ERROR,
    HEARTBEAT_SECONDS,
    LOCK_TIMEOUT_SECONDS,
    Store,
    recover,
    reported,
    storage_url,
)
from mase_hw.search.task import RESULT, Objective, Progress, Task, finished
from mase_hw.search.worker import FileLock, run_processes, run_trials

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrialResult:
    """A finished trial.

    Attributes:
        number: of the trial.
        metrics: its figures by name.
        config: number formats, for `emit-verilog`.
        parallelism: likewise; empty when it was not searched.
        predictions: hash of the classes it gave to the samples.
        parameters: its proposals.
        without_hardware: nodes without hardware in formats of this kind; empty when it emits.
    """

    number: int
    metrics: Mapping[str, float]
    config: Mapping[str, object]
    parallelism: Mapping[str, object]
    predictions: str
    parameters: Mapping[str, object]
    without_hardware: Sequence[str] = ()

    @classmethod
    def of(cls, trial: FrozenTrial) -> TrialResult:
        """Read a trial of the storage."""
        metrics, result = trial.user_attrs["metrics"], trial.user_attrs[RESULT]
        return cls(trial.number, metrics, **result, parameters=dict(trial.params))

    def write(self, path: Path) -> Path:
        """Write the file that `emit-verilog --config` takes."""
        return write_formats(path, self.config, self.parallelism)


@dataclass(frozen=True)
class SearchResult:
    """Results of a search.

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
    config: Mapping[str, object],
    *,
    output: str | Path,
    example_inputs: object = None,
    samples: object = None,
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
            `trials`, `seed`, `observer`, `task`, as `Trainer` has it; `start`, a configuration of
            number formats or its file, which the first trial proposes; `training` and `finetuning`,
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
    check_integer("workers", workers, 1)
    mg = model if isinstance(model, MaseGraph) else trace(model, example_inputs)
    own = objective is not None or callbacks or callable(builder)
    if own and (workers > 1 or dask is not None):
        raise ConfigError("objective, callbacks and builder run in this process; use one worker")
    ways = (directions,) if isinstance(directions, str) else tuple(directions)
    if not isinstance(samples, Samples):
        samples = Samples() if samples is None else Samples.of(Split.read(samples))
    task = Task(mg, samples, config, builder, objective, ways, tuple(callbacks))
    folder = Path(output)
    url = storage_url(storage if storage is not None else folder / "study.db")
    store = Store(url, mg.name, lock_timeout_seconds, heartbeat_seconds)
    with result_folder(folder, ("trials.csv", "best.toml", "best.mase")), reported(url):
        study = store.open(task.directions, task.identity())
        recover(study)
        first = task.first_parameters()
        if first is not None and not study.get_trials(deepcopy=False):
            study.enqueue_trial(first)
        if dask is not None:
            run_farm(task, store, study, dask, workers, progress)
        elif workers == 1:
            run_trials(task, study, FileLock(folder / "study.lock"), progress)
        else:
            run_processes(task, store, study, folder, workers, progress)
        return _results(task, study, folder, url)


def _results(task: Task, study: Study, folder: Path, url: str) -> SearchResult:
    trials = study.get_trials(deepcopy=False)
    failed = {
        trial.number: str(trial.user_attrs.get(ERROR, "the worker died"))
        for trial in trials
        if trial.state.name == "FAIL"
    }
    # What depends on the architecture is in some trials only.
    names = dict.fromkeys(dimension.name for dimension in task.space.dimensions)
    names |= dict.fromkeys(key for trial in trials for key in trial.params)
    metrics = sorted({key for trial in trials for key in trial.user_attrs.get("metrics", {})})
    rows = (
        {
            "trial": trial.number,
            "state": trial.state.name.lower(),
            **{name: trial.user_attrs.get("metrics", {}).get(name) for name in metrics},
            **{name: trial.params.get(name) for name in names},
            ERROR: trial.user_attrs.get(ERROR),
        }
        for trial in trials
    )
    write_table(folder / "trials.csv", rows)
    best = [TrialResult.of(trial) for trial in _best(task, study)]
    if not best:
        complete = sum(trial.state.name == "COMPLETE" for trial in trials)
        reason = (
            f"none of {complete} trials satisfies the constraints {task.constraints}"
            if complete
            else f"all {len(failed)} trials failed; the last: {list(failed.values())[-1:]}"
        )
        raise SearchError(f"the search found nothing: {reason}")
    files = {"best": best[0]}
    if len(task.objectives) > 1:
        files |= {f"front_{number}": result for number, result in enumerate(best)}
    for name, result in files.items():
        result.write(folder / f"{name}.toml")
        if task.changes_weights:
            with result_file(folder / f"{name}.mase") as file:
                _replay(task, result).save(file)
    return SearchResult(tuple(best), finished(trials), failed, folder, url)


def _replay(task: Task, result: TrialResult) -> MaseGraph:
    from optuna.trial import FixedTrial

    again, _ = task.measure(FixedTrial(dict(result.parameters)))
    if again.digest != result.predictions:
        logger.warning(
            "trial %d, repeated on this machine, gives other classes: %s for %s",
            result.number,
            again.values,
            result.metrics,
        )
    return again.mg


def _best(task: Task, study: Study) -> list[FrozenTrial]:
    if len(task.objectives) == 1:
        try:
            return [study.best_trial]
        except ValueError:
            return []
    sign = -1.0 if task.directions[0] == "maximize" else 1.0
    distinct = {tuple(trial.values): trial for trial in reversed(study.best_trials)}
    return sorted(distinct.values(), key=lambda trial: sign * trial.values[0])
