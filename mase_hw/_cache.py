"""Where downloads and builds are kept, and how a file there appears whole or not at all."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "MASE_HW_CACHE"


def cache_folder(name: str) -> Path:
    """Return the folder `name` of the cache, which exists afterwards.

    The cache is the user's cache folder (`~/.cache/mase-hw` on Linux) or `$MASE_HW_CACHE`.
    """
    root = os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("mase-hw")
    folder = Path(root).expanduser() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of `path` against other processes; the lock file stays beside it."""
    with path.with_name(f"{path.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Yield a temporary folder on the same file system as `parent`, so that renames are atomic."""
    with tempfile.TemporaryDirectory(dir=parent, prefix=".partial-") as name:
        yield Path(name)
