"""Workers: the loop over trials, in this process or in several."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from mase_hw._cache import remove_abandoned, scratch_folder
from mase_hw._processes import tool_group
from mase_hw.errors import MaseError, SearchError
from mase_hw.graph import MaseGraph
from mase_hw.search.objective import Samples
from mase_hw.search.storage import WORKER, Store, recover, this_worker, used
from mase_hw.search.task import Progress, Task, finished

if TYPE_CHECKING:
    from optuna import Study, Trial

POLL_SECONDS = 0.2
# Of temporary folders.
PREFIX = "mase-hw-search-"
DEATHS_PER_WORKER = 3


class Lock(Protocol):
    """A lock between workers that dies with its holder."""

    def take(self) -> None:
        """Wait for the lock."""

    def give(self) -> None:
        """Let another worker have it; nothing when it is not held."""


class FileLock:
    """A lock of workers that share a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def take(self) -> None:
        """Wait for the lock."""
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def give(self) -> None:
        """Let another worker have it."""
        fcntl.flock(self._file, fcntl.LOCK_UN)


def run_trials(task: Task, study: Study, lock: Lock, progress: Progress | None = None) -> None:
    """Run trials until the study has its number; an error of a trial does not end them.

    The lock is held by the worker that counts trials and begins one.
    """
    study.pruner = task.pruner

    def objective(trial: Trial) -> tuple[float, ...]:
        trial.set_user_attr(WORKER, this_worker())
        lock.give()
        return task.run_trial(trial)

    try:
        while True:
            lock.take()
            # Whoever begins a trial holds the lock until the trial has its name.
            recover(study, [""])
            trials = study.get_trials(deepcopy=False)
            if progress:
                progress(finished(trials), task.trials)
            if used(trials) >= task.trials:
                break
            study.sampler = task.sampler(len(trials))
            study.optimize(
                objective, n_trials=1, catch=(Exception,), callbacks=list(task.callbacks)
            )
    except BaseException:
        recover(study, [this_worker()])
        raise
    finally:
        lock.give()


def run_processes(
    task: Task, store: Store, study: Study, folder: Path, workers: int, progress: Progress | None
) -> None:
    """Run trials in several processes, and replace those that die.

    Raises:
        SearchError: when workers die again and again; the study stays as it is.
    """
    deaths = 0
    with scratch_folder(Path(tempfile.gettempdir()), PREFIX) as shared:
        write_task(task, store, shared)
        alive = [_start(shared) for _ in range(workers)]
        try:
            while alive:
                time.sleep(POLL_SECONDS)
                for process in [item for item in alive if item.poll() is not None]:
                    alive.remove(process)
                    if process.returncode == 0:
                        continue
                    deaths += 1
                    recover(study, [f"{socket.gethostname()}:{process.pid}"])
                    if deaths > DEATHS_PER_WORKER * workers:
                        words = (shared / f"words-{process.pid}").read_text(errors="replace")
                        last = (words.strip().splitlines() or ["it said nothing"])[-1]
                        raise SearchError(
                            f"{deaths} workers died, the last with status {process.returncode}: "
                            f"{last}; finished trials are kept in {store.url}"
                        )
                    alive.append(_start(shared))
                if progress:
                    progress(finished(study.get_trials(deepcopy=False)), task.trials)
        finally:
            for process in alive:
                process.terminate()
            for process in alive:
                process.wait()
            recover(study)


def remove_leftovers() -> None:
    """Remove the temporary folders of searches on this machine that were killed."""
    remove_abandoned(Path(tempfile.gettempdir()), PREFIX)


def write_task(task: Task, store: Store, shared: Path) -> None:
    """Write what a worker reads with `read_task`."""
    task.mg.save(shared / "graph.mase")
    torch.save(vars(task.samples), shared / "samples.pt")
    description = {"config": task.config, "store": vars(store), "builder": task.builder}
    (shared / "task.json").write_text(json.dumps(description))


def _start(shared: Path) -> subprocess.Popen[bytes]:
    path = filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[2])])
    threads = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    words = shared / f"words-{time.monotonic_ns()}"
    with words.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "mase_hw.search.worker", str(shared)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**threads, **os.environ, "PYTHONPATH": os.pathsep.join(path)},
            process_group=tool_group(),
        )
    words.rename(shared / f"words-{process.pid}")
    return process


def read_task(shared: Path) -> tuple[Task, Store]:
    """Read a task that `write_task` wrote."""
    description = json.loads((shared / "task.json").read_text())
    samples = Samples(**torch.load(shared / "samples.pt", weights_only=True))
    graph = MaseGraph.load(shared / "graph.mase")
    task = Task(graph, samples, description["config"], description["builder"])
    return task, Store(**description["store"])


def main(shared: Path) -> None:
    """Work on the task in a folder until it is done."""
    task, store = read_task(shared)
    study = store.open(task.directions, task.identity())
    run_trials(task, study, FileLock(shared / "study.lock"))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except MaseError as failure:
        sys.exit(f"error: {failure}")
