"""A folder per machine and user for what is built once: made atomically, safe among processes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "MASE_HW_CACHE"
KEEP_SECONDS = 30 * 24 * 3600


def cache_folder() -> Path:
    """Return `$MASE_HW_CACHE`, or the user's cache folder of this package."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("mase-hw"))


def content_key(*parts: object) -> str:
    """Return a short hash of JSON-serialisable `parts`."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def file_digest(path: Path) -> str:
    """Return the hash of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_once(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the cached folder `kind/key`, calling `make(folder)` to fill it the first time.

    `make` fills a temporary folder that is renamed when it returns, so that a folder in the cache
    is complete. Processes that want the same folder wait for the one that makes it.
    """
    root = cache_folder() / kind
    folder = root / key
    if not folder.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with (root / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _make(folder, make)
                _drop_unused(root)
    os.utime(folder)
    return folder


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix="making-", dir=folder.parent))
    try:
        make(temporary)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _drop_unused(root: Path) -> None:
    """Delete what nobody used for a month, and what an interrupted process left."""
    oldest = time.time() - KEEP_SECONDS
    for entry in root.iterdir():
        try:
            if entry.stat().st_mtime < oldest:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        except OSError:
            continue
