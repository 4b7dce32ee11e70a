"""The door of all outputs: written whole or not at all, and never over what is somebody else's."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from mase_hw._cache import PARTIAL, alone_in, is_claimed, scratch_folder
from mase_hw.errors import CacheError, OutputError

# Lists the files of results in its folder, each with the sums that it may have.
RECORD = ".results-of-mase-hw.json"
_HEADER = {"made_by": "mase-hw", "version": 1}
# The purpose of a temporary folder by which a run claims the folder that it lies in.
_HERE = "."
_FAULTS = (CacheError, OSError, RuntimeError)
_INPUTS = ContextVar[tuple[Path, ...]]("_INPUTS", default=())
_CLAIMS = ContextVar[frozenset[Path]]("_CLAIMS", default=frozenset())


@contextmanager
def inputs_kept(paths: Iterable[Path]) -> Iterator[None]:
    """Refuse to write over the files that a command reads, even those of ours."""
    token = _INPUTS.set((*_INPUTS.get(), *(path for path in paths if path.is_file())))
    try:
        yield
    finally:
        _INPUTS.reset(token)


def is_input(path: Path) -> bool:
    """Whether a file is one that this command reads."""
    return path.exists() and any(item.exists() and item.samefile(path) for item in _INPUTS.get())


@contextmanager
def claimed(place: Path) -> Iterator[Path]:
    """Claim the name of an output beside it, and yield a temporary folder there.

    A run claims again what it has claimed.

    Raises:
        OutputError: when another run writes there.
    """
    target = place.resolve()
    if target in _CLAIMS.get():
        with scratch_folder(target.parent, purpose=target.name) as scratch:
            yield scratch
        return
    with _claim(place, target, target.parent, target.name) as scratch:
        yield scratch


@contextmanager
def result_folder(folder: Path, names: Iterable[str] = ()) -> Iterator[None]:
    """Claim a folder for the files of one run; one that nothing was written to is removed.

    Args:
        folder: made where there is none.
        names: files that the run will write, which are checked before it begins.

    Raises:
        OutputError: as `check_result`, and when another run writes to the folder.
    """
    with _reported(folder, (*_FAULTS, ValueError)):
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder} is a file; give the name of a folder")
        for name in names:
            check_result(folder / name)
        target = folder.resolve()
    if target in _CLAIMS.get():
        yield
        return
    with _claim(folder, target, target, _HERE):
        yield


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which takes the place of `path` if nothing fails.

    A link stays, and the file that it leads to is replaced. Folders above are made.

    Raises:
        OutputError: when the file cannot be written.
    """
    with _reported(path):
        target = path.resolve()
        if _is_stream(target):
            yield target
            return
        with _folder_of(target), scratch_folder(target.parent) as scratch:
            yield scratch / target.name
            _replace(target, scratch)


@contextmanager
def result_file(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, as `whole_file`, that only replaces one of ours.

    A file in a temporary folder of ours is written as it is.

    Raises:
        OutputError: as `check_result`, and when another run writes the file.
    """
    if any(part.startswith(PARTIAL) for part in path.parts):
        yield path
        return
    check_result(path)
    with _reported(path):
        target = path.resolve()
        if _is_stream(target):
            yield target
            return
        with _claim(path, target, target.parent, target.name) as scratch:
            made = scratch / target.name
            yield made
            # Whenever this process is killed, the record knows the file that is there.
            _record(path, [_sum(path), _sum(made)])
            _replace(target, scratch)


def check_result(path: Path) -> None:
    """Raise unless a file of results can be written: none is there, or one of ours, as it was.

    Raises:
        OutputError: when it cannot.
    """
    with _reported(path, (*_FAULTS, ValueError)):
        if path.name and path.resolve() not in _CLAIMS.get():
            _check_unclaimed(path, path.parent, path.name)
        if not os.path.lexists(path):
            check_above(path)
            return
        if path.is_dir():
            raise OutputError(f"{path} is a folder; give the name of a file")
        if is_input(path):
            raise OutputError(
                f"{path} is read by this command too, so it is left alone; give another output"
            )
        if not _is_ours(path) and not _is_stream(path):
            link = f", a link to {path.readlink()}," if path.is_symlink() else ""
            raise OutputError(
                f"{path}{link} exists and is left alone: only what mase-hw wrote, and nobody "
                "changed since, is replaced; move it away, or give another output"
            )
        check_above(path.resolve())


def check_above(path: Path) -> None:
    """Raise unless something can be made at a path.

    Raises:
        OutputError: when what lies above is a file, or may not be written.
    """
    above = next((item for item in path.absolute().parents if os.path.lexists(item)), path)
    if not above.is_dir():
        raise OutputError(f"{path} cannot be made: {above} is a file; give another output")
    if not os.access(above, os.W_OK | os.X_OK):
        raise OutputError(
            f"{path} cannot be made: {above} may not be written by this user; give another output"
        )


def remove_results(folder: Path, pattern: str) -> None:
    """Remove the files of results in a folder whose names match, but what was changed."""
    for path in folder.glob(pattern):
        if path.name in _known(folder) and _is_ours(path):
            path.unlink()
            _record(path, [])


@contextmanager
def _claim(place: Path, target: Path, parent: Path, purpose: str) -> Iterator[Path]:
    """Yield a new temporary folder in `parent` that says what this run writes."""
    with ExitStack() as held:
        with _reported(place):
            held.enter_context(_folder_of(parent / target.name))
            with alone_in(parent):
                _check_unclaimed(place, parent, purpose)
                scratch = held.enter_context(scratch_folder(parent, purpose=purpose))
        token = _CLAIMS.set(_CLAIMS.get() | {target})
        held.callback(_CLAIMS.reset, token)
        yield scratch


def _check_unclaimed(place: Path, parent: Path, purpose: str) -> None:
    if is_claimed(parent, purpose):
        raise OutputError(
            f"another run is writing to {place}; wait until it has ended, or give another output"
        )


@contextmanager
def _folder_of(target: Path) -> Iterator[None]:
    """Make the folders above a path; those in which nothing lies afterwards are removed."""
    missing = [item for item in target.parents if not item.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):
            for item in missing:
                item.rmdir()


@contextmanager
def _reported(path: Path, faults: tuple[type[Exception], ...] = _FAULTS) -> Iterator[None]:
    try:
        yield
    except faults as error:
        shown = str(path) if len(str(path)) <= 100 else f"{str(path)[:100]}..."
        raise OutputError(
            f"{shown} cannot be written: {_reason(error)}; nothing was, so mend that, or give "
            "another output"
        ) from error


def _replace(target: Path, scratch: Path) -> None:
    made = scratch / target.name
    if target.exists():
        if not os.access(target, os.W_OK):
            raise PermissionError(0, "it may not be written by this user")
        shutil.copymode(target, made)
    made.replace(target)


def _is_stream(path: Path) -> bool:
    """Whether a path is a terminal, a pipe or the like, in which nothing can be lost."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _is_ours(path: Path) -> bool:
    return _sum(path) in _known(path.parent).get(path.name, ())


def _known(folder: Path) -> Mapping[str, Sequence[str]]:
    try:
        entry = json.loads((folder / RECORD).read_text())
        files = entry.pop("files")
        return dict(files) if entry == _HEADER else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _record(path: Path, sums: Sequence[str]) -> None:
    """Note the sums that a file of ours may have."""
    folder = path.parent
    with alone_in(folder):
        files = {**_known(folder), path.name: [item for item in sums if item]}
        text = json.dumps({**_HEADER, "files": {key: files[key] for key in sorted(files)}})
        with whole_file(folder / RECORD) as made:
            made.write_text(text + "\n")


def _sum(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reason(error: Exception) -> object:
    cause = error.__cause__ or error
    return cause.strerror or cause if isinstance(cause, OSError) else cause


def write_table(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    """Write rows as CSV; a row may lack columns."""
    rows = list(rows)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with result_file(path) as written, written.open("w", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows(rows)
    return path


def write_json(path: Path, content: object) -> Path:
    """Write JSON; numbers that it does not have become text."""
    with result_file(path) as file:
        file.write_text(json.dumps(_finite(content), indent=2) + "\n")
    return path


def _finite(content: object) -> object:
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    if isinstance(content, Mapping):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return content
