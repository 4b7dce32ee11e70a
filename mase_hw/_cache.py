"""Where downloads and builds are kept, and how a file there appears whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from mase_hw.errors import CacheError

CACHE_VARIABLE = "MASE_HW_CACHE"
PARTIAL = ".partial-"
# A temporary folder is locked this soon after it was made.
LOCKED_SECONDS = 60


def cache_folder(name: str) -> Path:
    """Return the folder `name` of the cache, which exists afterwards.

    The cache is the user's cache folder (`~/.cache/mase-hw` on Linux) or `$MASE_HW_CACHE`.

    Raises:
        CacheError: when it cannot be made or written.
    """
    root = os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("mase-hw")
    folder = Path(root) / name
    try:
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
    except RuntimeError as error:
        raise unusable(folder, "there is no home folder") from error
    except (OSError, ValueError) as error:
        raise unusable(folder, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise unusable(folder, "it may not be written by this user")
    return folder


def unusable(folder: Path, reason: object) -> CacheError:
    """Return the error of a cache that cannot be used."""
    why = reason.strerror or reason if isinstance(reason, OSError) else reason
    return CacheError(
        f"the cache {folder} cannot be used: {why}; name another folder with {CACHE_VARIABLE}"
    )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of `path` against other processes; the lock file stays beside it.

    Raises:
        CacheError: when it cannot be made.
    """
    try:
        handle = path.with_name(f"{path.name}.lock").open("w")
    except OSError as error:
        raise unusable(path.parent, error) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def scratch_folder(parent: Path, prefix: str = PARTIAL) -> Iterator[Path]:
    """Yield a temporary folder on the same file system as `parent`, so that renames are atomic.

    Those that killed processes left there are deleted.

    Raises:
        CacheError: when it cannot be made.
    """
    for left in abandoned(parent, prefix):
        shutil.rmtree(left, ignore_errors=True)
        _lock_of(left).unlink(missing_ok=True)
    try:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        handle = _lock_of(folder).open("w")
    except OSError as error:
        raise unusable(parent, error) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            _lock_of(folder).unlink(missing_ok=True)


def abandoned(parent: Path, prefix: str) -> list[Path]:
    """Return the temporary folders whose process has ended without deleting them."""
    found = []
    for folder in parent.iterdir() if parent.is_dir() else ():
        if not folder.name.startswith(prefix) or folder.is_symlink() or not folder.is_dir():
            continue
        try:
            with _lock_of(folder).open("r+") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.append(folder)
        except FileNotFoundError:
            if time.time() - folder.stat().st_mtime > LOCKED_SECONDS:
                found.append(folder)
        except OSError:
            continue
    return found


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")
