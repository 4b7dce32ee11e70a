"""Workers on many machines through Dask, with Optuna's Dask storage.

The scheduler's process opens the study's storage, so its URL must mean the same there as here:
PostgreSQL, or an SQLite file when the scheduler runs on this machine. Dask-jobqueue starts workers
on SLURM, LSF, SGE or PBS.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mase_hw.errors import SearchError
from mase_hw.search.storage import WORKER, Store, recover, used
from mase_hw.search.task import Progress, Task, finished
from mase_hw.search.worker import DEATHS_PER_WORKER, POLL_SECONDS, read_task, run_trials, write_task

if TYPE_CHECKING:
    from optuna import Study

CONNECT_SECONDS = 30


class _DaskLock:
    """The lock of Dask workers, which the scheduler keeps."""

    def __init__(self, name: str) -> None:
        import distributed

        dask: Any = distributed
        self._lock = dask.Lock(name)
        self._held = False

    def take(self) -> None:
        if not self._held:
            self._held = self._lock.acquire()

    def give(self) -> None:
        if self._held:
            self._lock.release()
            self._held = False


def run_farm(
    task: Task, store: Store, study: Study, address: str, workers: int, progress: Progress | None
) -> None:
    """Run trials on the workers of a Dask scheduler until the study has its number.

    Raises:
        SearchError: when Dask is not installed, the scheduler does not answer, or workers keep
            dying; finished trials are kept.
    """
    try:
        import distributed
    except ImportError as error:
        raise SearchError(
            "--dask needs Dask and Optuna's storage for it: pip install 'mase-hw[dask]'"
        ) from error
    dask: Any = distributed
    try:
        client = dask.Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise SearchError(
            f"no Dask scheduler answers at {address!r} ({error}); start one with `dask scheduler`, "
            "and workers with `dask worker ADDRESS`"
        ) from error
    with client, tempfile.TemporaryDirectory(prefix="mase-hw-search-") as name:
        shared = Path(name)
        write_task(task, store, shared)
        files = {path.name: path.read_bytes() for path in shared.iterdir()}
        # One copy on every worker, rather than one in every task.
        shared_files = client.scatter(files, broadcast=True, hash=False)
        place = store.url, store.name
        rounds = 0
        while used(study.get_trials(deepcopy=False)) < task.trials:
            rounds += 1
            if rounds > DEATHS_PER_WORKER + 1:
                raise SearchError(
                    f"workers of {address} died {rounds - 1} times; finished trials are kept in "
                    f"{store.url}"
                )
            futures = [
                client.submit(_work, shared_files, *place, number, pure=False, retries=0)
                for number in range(workers)
            ]
            _watch(futures, study, task, progress)
            running = [
                str(trial.user_attrs.get(WORKER, ""))
                for trial in study.get_trials(deepcopy=False)
                if trial.state.name == "RUNNING"
            ]
            recover(study, running)


def _watch(futures: list[Any], study: Study, task: Task, progress: Progress | None) -> None:
    import distributed

    dask: Any = distributed
    pending: set[Any] = set(futures)
    while pending:
        try:
            pending = set(dask.wait(pending, timeout=POLL_SECONDS).not_done)
        except TimeoutError:
            pending = {future for future in pending if not future.done()}
        if progress:
            progress(finished(study.get_trials(deepcopy=False)), task.trials)
    for future in futures:
        error = future.exception()
        if error is not None and not isinstance(error, dask.KilledWorker):
            raise SearchError(
                f"a Dask worker cannot work: {type(error).__name__}: {error}"
            ) from error


def _work(files: Mapping[str, bytes], url: str, name: str, number: int) -> int:
    import optuna
    import torch
    from distributed import get_client
    from optuna_integration.dask import DaskStorage

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="mase-hw-search-") as folder:
        for file, content in files.items():
            (Path(folder) / file).write_bytes(content)
        task, _ = read_task(Path(folder))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        storage: Any = DaskStorage(url, name=f"mase-hw {url}", client=get_client())
    study = optuna.load_study(study_name=name, storage=storage)
    run_trials(task, study, _DaskLock(f"mase-hw {url} {name}"))
    return number
