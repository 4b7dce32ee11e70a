"""Content-addressed results of builds, kept in the cache and made once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mase_hw._cache import cache_folder, locked, scratch_folder, unusable

KEEP_SECONDS = 30 * 24 * 3600
# Lists the files of a folder in the cache, with their check sums.
CONTENTS = "contents.json"


def content_key(*parts: object) -> str:
    """Return a short hash of JSON-serialisable `parts`."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def file_digest(path: Path) -> str:
    """Return the hash of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_once(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the cached folder `kind/key`, calling `make(folder)` to fill it where it is not whole.

    `make` fills a temporary folder that is renamed when it returns, so that a folder in the cache
    is complete. One whose files are not what was written is made again. Processes that want the
    same folder wait for the one that makes it.

    Raises:
        CacheError: when the cache cannot be written.
    """
    root = cache_folder(kind)
    folder = root / key
    if not _is_whole(folder):
        with locked(folder):
            if not _is_whole(folder):
                _make(folder, make)
                _drop_unused(root)
    with suppress(OSError):
        os.utime(folder)
    return folder


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    """Fill a folder, in place of what is there."""
    with scratch_folder(folder.parent) as scratch:
        made = scratch / folder.name
        try:
            made.mkdir()
            make(made)
            (made / CONTENTS).write_text(json.dumps(_contents(made)))
            if folder.is_dir() and not folder.is_symlink():
                folder.rename(scratch / "broken")
            else:
                folder.unlink(missing_ok=True)
            made.rename(folder)
        except OSError as error:
            raise unusable(folder.parent, error) from error


def _contents(folder: Path) -> dict[str, list[int]]:
    """Return size and check sum of every file of a folder; nothing, of a folder in it."""
    found = dict[str, list[int]]()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file():
            found[name] = []
        elif path.name != CONTENTS:
            data = path.read_bytes()
            found[name] = [len(data), zlib.crc32(data)]
    return found


def _is_whole(folder: Path) -> bool:
    """Return whether a folder is there, with all files as they were written."""
    try:
        return bool(json.loads((folder / CONTENTS).read_text()) == _contents(folder))
    except (OSError, ValueError):
        return False


def _drop_unused(root: Path) -> None:
    """Delete what nobody used for a month, and what an interrupted process left."""
    oldest = time.time() - KEEP_SECONDS
    for entry in root.iterdir():
        try:
            if entry.stat().st_mtime < oldest:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        except OSError:
            continue
