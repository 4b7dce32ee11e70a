"""Files of results: written whole or not at all, and never over those of somebody else."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from mase_hw._cache import alone_in, scratch_folder
from mase_hw.errors import CacheError, OutputError

# Lists the files of results in its folder, each with the sums that it may have.
RECORD = ".results-of-mase-hw.json"
_HEADER = {"made_by": "mase-hw", "version": 1}


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which takes the place of `path` if nothing fails.

    A link stays, and the file that it leads to is replaced. Folders above are made.

    Raises:
        OutputError: when the file cannot be written.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            # A device or a pipe is written to.
            yield target
            return
        if target.exists() and not os.access(target, os.W_OK):
            raise OutputError(f"{path} may not be written by this user")
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target.parent) as scratch:
            made = scratch / target.name
            yield made
            if target.exists():
                shutil.copymode(target, made)
            made.replace(target)
    except (CacheError, OSError, RuntimeError) as error:
        raise OutputError(f"{path} cannot be written: {_reason(error)}") from error


@contextmanager
def result_file(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, as `whole_file`, that only replaces one of ours.

    Raises:
        OutputError: when another has the name, or when ours was changed by somebody.
    """
    check_result(path)
    with whole_file(path) as made:
        yield made
        # Whenever this process is killed, the record knows the file that is there.
        _record(path, [_sum(made)], kept=True)
    _record(path, [_sum(path)])


def check_result(path: Path) -> None:
    """Raise unless a file of results can be written: none is there, or one of ours, as it was.

    Raises:
        OutputError: when it cannot.
    """
    if os.path.lexists(path) and not _is_ours(path):
        raise OutputError(
            f"{path} was not written by mase-hw, or was changed since, so it is left alone; move "
            "it away, or give another folder"
        )


def remove_results(folder: Path, pattern: str) -> None:
    """Remove the files of results in a folder whose names match, but what was changed."""
    for path in folder.glob(pattern):
        if path.name in _known(folder) and _is_ours(path):
            path.unlink()
            _record(path, [])


def _is_ours(path: Path) -> bool:
    return _sum(path) in _known(path.parent).get(path.name, ())


def _known(folder: Path) -> Mapping[str, Sequence[str]]:
    try:
        entry = json.loads((folder / RECORD).read_text())
        files = entry.pop("files")
        return dict(files) if entry == _HEADER else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _record(path: Path, sums: Sequence[str], *, kept: bool = False) -> None:
    """Note the sums that a file of ours may have, beside those that it has `kept`."""
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder):
        files = dict(_known(folder))
        listed = [*(files.get(path.name, ()) if kept else ()), *sums]
        files = {**files, path.name: listed}
        text = json.dumps({**_HEADER, "files": {key: files[key] for key in sorted(files)}})
        with whole_file(folder / RECORD) as made:
            made.write_text(text + "\n")


def _sum(path: Path) -> str:
    """Return the sum of a file; nothing, of what is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reason(error: Exception) -> object:
    cause = error.__cause__ or error
    return cause.strerror or cause if isinstance(cause, OSError) else cause
