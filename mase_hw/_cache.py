"""Where downloads and builds are kept, and how a file there appears whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import platformdirs

from mase_hw.errors import CacheError

CACHE_VARIABLE = "MASE_HW_CACHE"
# Of temporary folders; 16 random digits follow.
PARTIAL = ".partial-mase-hw-"
# The file that proves a temporary folder ours. Its process holds its lock as long as it lives.
MARKER = ".made-by-mase-hw"
MARKER_BYTES = 4096
# A folder of this name in a temporary folder was taken from its place: nobody removes it.
TAKEN = "old"


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
    lock = path.with_name(f"{path.name}.lock")
    try:
        # What a file of that name holds stays.
        handle = lock.open("a")
        os.utime(lock)
    except OSError as error:
        raise unusable(path.parent, error) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder itself, if its file system has locks of folders."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def scratch_folder(parent: Path, prefix: str = PARTIAL, purpose: str = "") -> Iterator[Path]:
    """Yield a temporary folder on the same file system as `parent`, so that renames are atomic.

    Those that killed processes left there are deleted.

    Args:
        parent: where.
        prefix: of its name.
        purpose: what `abandoned` finds it by.

    Raises:
        CacheError: when it cannot be made.
    """
    remove_abandoned(parent, prefix)
    folder = parent / f"{prefix}{secrets.token_hex(8)}"
    try:
        folder.mkdir(0o700)
        marker = _mark(folder, purpose)
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        raise unusable(parent, error) from error
    with marker:
        try:
            yield folder
        finally:
            _remove(folder)


def remove_abandoned(parent: Path, prefix: str = PARTIAL) -> None:
    """Delete the temporary folders of killed processes, but what was taken from its place."""
    for left, _ in abandoned(parent, prefix):
        _remove(left)


def abandoned(parent: Path, prefix: str = PARTIAL) -> Iterator[tuple[Path, str]]:
    """Yield each temporary folder of a process that is gone, and its purpose; hold its lock.

    Only what has our marker, which names that very folder, is one.
    """
    for folder, purpose, is_held in _temporary_folders(parent, prefix):
        if not is_held:
            yield folder, purpose


def is_claimed(parent: Path, purpose: str) -> bool:
    """Whether a live process has a temporary folder of that purpose."""
    return any(item == purpose and held for _, item, held in _temporary_folders(parent, PARTIAL))


def _temporary_folders(parent: Path, prefix: str) -> Iterator[tuple[Path, str, bool]]:
    """Yield each temporary folder, its purpose, and whether its process lives."""
    for folder in sorted(parent.glob(f"{prefix}*")):
        with suppress(OSError, ValueError, RecursionError), _open_marker(folder) as marker:
            try:
                fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_held = False
            except BlockingIOError:
                is_held = True
            found = json.loads(marker.read(MARKER_BYTES))
            purpose = found.pop("purpose", None) if isinstance(found, dict) else None
            if isinstance(purpose, str) and found == _identity(folder):
                yield folder, purpose, is_held


def discard(path: Path) -> None:
    """Delete a file or a folder of ours, and folders in it that may not be written."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(stat.S_IRWXU)
    for place, names, _ in os.walk(path):
        for inner in (Path(place, name) for name in names):
            if not inner.is_symlink():
                inner.chmod(stat.S_IRWXU)
    shutil.rmtree(path)


def _identity(folder: Path) -> dict[str, object]:
    """Identity of a folder as its marker holds it; a copy of the folder has another one."""
    return {"made_by": "mase-hw", "folder": folder.name, "inode": folder.lstat().st_ino}


def _mark(folder: Path, purpose: str) -> IO[str]:
    """Write the marker of a new folder, and hold its lock."""
    marker = (folder / MARKER).open("x")
    try:
        fcntl.flock(marker, fcntl.LOCK_EX)
        marker.write(json.dumps({**_identity(folder), "purpose": purpose}))
        marker.flush()
    except OSError:
        (folder / MARKER).unlink()
        raise
    return marker


def _open_marker(folder: Path) -> IO[str]:
    """Open the marker of a folder; neither a link nor a pipe is one."""
    file = os.open(folder / MARKER, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(file).st_mode) and not folder.is_symlink():
        return os.fdopen(file, "r")
    os.close(file)
    raise OSError


def _remove(folder: Path) -> None:
    """Delete a temporary folder of ours, its marker last; keep what was taken from its place."""
    if os.path.lexists(folder / TAKEN):
        return
    with suppress(OSError):
        for item in folder.iterdir():
            if item.name != MARKER:
                discard(item)
        (folder / MARKER).unlink()
        folder.rmdir()
