"""The study in its storage: opening it, counting its trials, and taking back those of the dead."""

from __future__ import annotations

import json
import logging
import os
import socket
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING

from mase_hw.errors import SearchError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial
    from sqlalchemy.engine import Engine

logger = logging.getLogger(__name__)

MAXIMUM_RETRIES = 2
HEARTBEAT_SECONDS = 15
LOCK_TIMEOUT_SECONDS = 60
ERROR, WORKER, RETRIES, IDENTITY = "error", "worker", "retries", "task"


@dataclass(frozen=True)
class Store:
    """Where a study lies.

    Attributes:
        url: SQLAlchemy's URL, such as `sqlite:////path/study.db`.
        name: of the study.
        timeout_seconds: how long a locked SQLite file is waited for.
        heartbeat_seconds: how often a running trial shows that it lives.
    """

    url: str
    name: str
    timeout_seconds: float = LOCK_TIMEOUT_SECONDS
    heartbeat_seconds: int = HEARTBEAT_SECONDS

    def open(self, directions: Sequence[str], identity: Mapping[str, object]) -> Study:
        """Open the study, or create it.

        Raises:
            SearchError: when the storage cannot be opened, is locked, or holds another study.
        """
        import optuna
        from optuna.study import StudyDirection

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with reported(self.url):
            study = optuna.create_study(
                storage=self._storage(),
                study_name=self.name,
                directions=[StudyDirection[direction.upper()] for direction in directions],
                load_if_exists=True,
            )
            text = json.dumps(identity, sort_keys=True)
            stored = study.user_attrs.get(IDENTITY)
            if stored is None and not study.trials:
                study.set_user_attr(IDENTITY, text)
            elif stored != text:
                other = json.loads(stored or "{}")
                keys = sorted(k for k in {*other, *identity} if other.get(k) != identity.get(k))
                differs = f"{', '.join(keys)} differ" if other else "it was not made by mase-hw"
                raise SearchError(
                    f"{self.url} holds a study {self.name!r} of another search: {differs}; give "
                    "another --storage, or the same search"
                )
        return study

    def _storage(self) -> RDBStorage:
        import optuna

        sqlite = self.url.startswith("sqlite")
        if sqlite:
            folder = Path(self.url.removeprefix("sqlite:///")).parent
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SearchError(
                    f"the storage's folder {folder} cannot be made: {error.strerror}; give another "
                    "--storage"
                ) from error
        options = {"connect_args": {"timeout": self.timeout_seconds}} if sqlite else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            callback = optuna.storages.RetryHeartbeatStaleTrialCallback(MAXIMUM_RETRIES)
            storage = optuna.storages.RDBStorage(
                self.url,
                engine_kwargs=options,
                heartbeat_interval=self.heartbeat_seconds,
                heartbeat_stale_trial_callback=callback,
            )
        if sqlite:
            _write_ahead(storage.engine)
        return storage


def _write_ahead(engine: Engine) -> None:
    """Let SQLite write to a log, without a flush of the disk at each of a trial's transactions.

    What the operating system was told is kept when a worker dies. The log wants all workers on one
    machine (https://sqlite.org/wal.html).
    """
    from sqlalchemy import event

    @event.listens_for(engine, "connect")
    def connected(connection: Connection, record: object) -> None:
        connection.execute("PRAGMA synchronous = NORMAL")

    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    # Connections of the pool that are older than the listener.
    engine.dispose()


@contextmanager
def reported(url: str) -> Iterator[None]:
    """Turn the storage's errors into ours."""
    import optuna
    import sqlalchemy.exc

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        text = str(error.__cause__ or error).splitlines()[0]
        if "locked" in text:
            raise SearchError(
                f"the storage {url} is locked by another process; wait for it, or give another "
                "--storage"
            ) from error
        raise SearchError(f"the storage {url} cannot be used: {text}") from error
    except (RuntimeError, ValueError, ImportError) as error:
        raise SearchError(f"the storage {url} cannot be used: {error}") from error


def storage_url(value: str | Path) -> str:
    """Return a URL: that of an SQLite file for anything that is not a URL."""
    text = str(value)
    return text if "://" in text else f"sqlite:///{Path(text).absolute()}"


def this_worker() -> str:
    """Return the name of this process among all machines."""
    return f"{socket.gethostname()}:{os.getpid()}"


def used(trials: Sequence[FrozenTrial]) -> int:
    """Count the trials that are done or under way; one whose worker died does not count."""
    return sum(
        not trial.state.is_finished() or trial.state.name != "FAIL" or ERROR in trial.user_attrs
        for trial in trials
        if trial.state.name != "WAITING"
    )


def recover(study: Study, dead: Sequence[str] = ()) -> int:
    """Fail the running trials of dead workers and queue them again; return how many.

    Dead are those of these names, beside those whose process is gone.
    """
    import optuna
    from optuna.trial import TrialState

    count = 0
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        worker = str(trial.user_attrs.get(WORKER, ""))
        if worker not in dead and not _gone(worker):
            continue
        retries = int(trial.user_attrs.get(RETRIES, 0))
        storage = study._storage
        try:
            if retries >= MAXIMUM_RETRIES:
                message = f"the worker died {retries + 1} times in this trial"
                storage.set_trial_user_attr(trial._trial_id, ERROR, message)
            storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        except optuna.exceptions.UpdateFinishedTrialError:
            continue
        logger.warning("trial %d: worker %s died", trial.number, worker)
        count += 1
        if retries < MAXIMUM_RETRIES:
            study.enqueue_trial(dict(trial.params), user_attrs={RETRIES: retries + 1})
    return count


def _gone(worker: str) -> bool:
    host, _, process = worker.rpartition(":")
    if host != socket.gethostname() or not process.isdigit():
        return False
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
