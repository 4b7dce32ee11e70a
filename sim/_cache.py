"""Content-addressed results of builds, kept in the cache and made once."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mase_hw._cache import cache_folder, discard, locked, scratch_folder, unusable

KEEP_SECONDS = 30 * 24 * 3600
# Proves that a folder of the cache is ours: it lists all files in it with their check sums.
CONTENTS = "contents.json"
KEY_DIGITS = 24
_KEY = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}(\.lock)?")


def content_key(*parts: object) -> str:
    """Return a short hash of JSON-serialisable `parts`."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


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
    """Fill a folder; what is there and is not all ours gets another name."""
    with scratch_folder(folder.parent) as scratch:
        filled = scratch / folder.name
        try:
            filled.mkdir()
            make(filled)
            files = _contents(filled)
            listed = {"files": files, "digest": content_key(files)}
            (filled / CONTENTS).write_text(json.dumps(listed))
            if _is_ours(folder):
                folder.rename(scratch / "broken")
            elif os.path.lexists(folder):
                folder.rename(f"{folder}-{secrets.token_hex(4)}")
            filled.rename(folder)
        except OSError as error:
            raise unusable(folder.parent, error) from error


def _contents(folder: Path) -> dict[str, list[int]]:
    """Return size and check sum of every file of a folder; nothing, of a folder in it."""
    sizes = dict[str, list[int]]()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file():
            sizes[name] = []
        elif name != CONTENTS:
            data = path.read_bytes()
            sizes[name] = [len(data), zlib.crc32(data)]
    return sizes


def _listed(folder: Path) -> dict[str, list[int]] | None:
    """Files that we wrote into a folder of the cache; None where that is not known."""
    try:
        listed = json.loads((folder / CONTENTS).read_text())
        files, digest = dict(listed["files"]), listed["digest"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return files if digest == content_key(files) else None


def _is_whole(folder: Path) -> bool:
    """True if a folder is there, with all files as they were written."""
    try:
        listed = _listed(folder)
        return listed is not None and listed.items() <= _contents(folder).items()
    except OSError:
        return False


def _is_ours(folder: Path) -> bool:
    """True if nothing lies in a folder but what we wrote, whole or not."""
    listed = None if folder.is_symlink() else _listed(folder)
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return listed is not None and names <= {*listed, CONTENTS}


def _drop_unused(root: Path) -> None:
    """Delete what nobody used for a month."""
    oldest = time.time() - KEEP_SECONDS
    for entry in root.iterdir():
        with suppress(OSError):
            state = entry.lstat()
            if state.st_mtime >= oldest or not _KEY.fullmatch(entry.name):
                continue
            if _is_ours(entry):
                discard(entry)
            elif stat.S_ISREG(state.st_mode) and not state.st_size:
                entry.unlink()
