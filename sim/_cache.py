"""Content-addressed results of builds, kept in the cache and made once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from mase_hw._cache import cache_folder, locked, scratch_folder

KEEP_SECONDS = 30 * 24 * 3600


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
    root = cache_folder(kind)
    folder = root / key
    if not folder.is_dir():
        with locked(folder):
            if not folder.is_dir():
                with scratch_folder(root) as scratch:
                    made = scratch / key
                    made.mkdir()
                    make(made)
                    made.rename(folder)
                _drop_unused(root)
    os.utime(folder)
    return folder


def _drop_unused(root: Path) -> None:
    """Delete what nobody used for a month, and what an interrupted process left."""
    oldest = time.time() - KEEP_SECONDS
    for entry in root.iterdir():
        try:
            if entry.stat().st_mtime < oldest:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        except OSError:
            continue
