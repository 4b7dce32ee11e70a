"""What emission wrote into a folder: only that is ever replaced."""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mase_hw.errors import EmissionError

MANIFEST_FILE = "manifest.json"
# It says whose manifest it is, too: others write files of that name.
_HEADER = {"made_by": "mase-hw", "version": 2}
# What runs of the project leave, and make again.
_LEFT_BY_RUNS = re.compile(
    r"sim/(build(/(V?top[^/]*|verilat[^/]*|dump\.vcd|results\.xml))?"
    r"|__pycache__(/(run|stream|memory|test_top)\.[^/]*pyc)?)"
)


@dataclass(frozen=True)
class Manifest:
    """SHA-256 of every file that emission wrote, by path in the folder.

    Attributes:
        files: hexadecimal sums.
    """

    files: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path) -> Manifest:
        """Return the manifest of all files in a folder."""
        _, files = _inside(folder)
        return cls({name: _sum(folder / name) for name in files})

    @classmethod
    def load(cls, folder: Path) -> Manifest | None:
        """Read the manifest of a folder; None unless this release wrote it, as it is."""
        try:
            text = (folder / MANIFEST_FILE).read_text()
            files = json.loads(text)["files"]
            manifest = cls({str(name): str(item) for name, item in files.items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return manifest if manifest._text() == text else None

    def write(self, folder: Path) -> None:
        """Write `manifest.json` into the project's folder."""
        (folder / MANIFEST_FILE).write_text(self._text())

    def _text(self) -> str:
        return json.dumps({**_HEADER, "files": dict(self.files)}, indent=2) + "\n"

    def changed(self, folder: Path) -> list[str]:
        """Return the files that changed since they were written; missing files do not count."""
        return [
            name
            for name, expected in self.files.items()
            if os.path.lexists(folder / name) and _sum(folder / name) != expected
        ]

    def foreign(self, folder: Path) -> tuple[list[str], list[str]]:
        """Return the folders and files that emission did not write, without what runs leave."""
        folders, files = _inside(folder)
        ours = {*self.files, MANIFEST_FILE}
        ours |= {str(above) for name in self.files for above in Path(name).parents}
        kept = [name for name in files if name not in ours and not _LEFT_BY_RUNS.fullmatch(name)]
        around = {str(above) for name in kept for above in Path(name).parents} - ours
        return [
            name
            for name in folders
            if name in around or not (name in ours or _LEFT_BY_RUNS.fullmatch(name))
        ], kept


def keep_foreign(old: Path, new: Path) -> None:
    """Give the project `new` what others put into the folder of `old`, which keeps it as well.

    Files are the same ones afterwards, where the file system has links. Nothing happens to those
    that are there already.

    Raises:
        EmissionError: for a file of theirs that has the name of a new one of ours.
        OSError: for what cannot be read.
    """
    manifest = Manifest.load(old)
    folders, files = manifest.foreign(old) if manifest else ([], [])
    for name in (*folders, *files):
        if not _has_room(old / name, new, name):
            raise EmissionError(
                f"{old / name} was not written by mase-hw, and the new project has a file of that "
                "name; move yours away"
            )
    for name in folders:
        (new / name).mkdir(parents=True, exist_ok=True)
    for name in files:
        if not os.path.lexists(new / name):
            _link(old / name, new / name)
    _keep_modes(old, new, folders)


def _has_room(item: Path, new: Path, name: str) -> bool:
    """True if something can lie at `name` of a project, or does so already."""
    target = new / name
    above = (new / item for item in Path(name).parents)
    if any(path.is_symlink() or (path.exists() and not path.is_dir()) for path in above):
        return False
    if not os.path.lexists(target):
        return True
    mine, there = item.lstat(), target.lstat()
    if stat.S_IFMT(mine.st_mode) != stat.S_IFMT(there.st_mode):
        return False
    if stat.S_ISDIR(mine.st_mode) or os.path.samestat(mine, there):
        return True
    if item.is_symlink():
        return item.readlink() == target.readlink()
    return item.is_file() and filecmp.cmp(item, target, shallow=False)


def _link(item: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that cannot be."""
    try:
        os.link(item, target, follow_symlinks=False)
    except OSError:
        if os.path.lexists(target) or not (item.is_symlink() or item.is_file()):
            raise
        shutil.copy2(item, target, follow_symlinks=False)


def _keep_modes(old: Path, new: Path, folders: Iterable[str]) -> None:
    """Give folders the permissions and times that they had, the innermost first."""
    for name in sorted(folders, reverse=True):
        shutil.copystat(old / name, new / name)
    shutil.copymode(old, new)


def _inside(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of all folders and of all other things in a folder, those above first."""

    def fail(error: OSError) -> None:
        raise error

    folders, files = list[str](), list[str]()
    for place, inner, names in os.walk(folder, onerror=fail):
        here = Path(place).relative_to(folder)
        links = [name for name in inner if (Path(place) / name).is_symlink()]
        folders += [str(here / name) for name in inner if name not in links]
        files += [str(here / name) for name in (*names, *links)]
    return sorted(folders), sorted(files)


def _sum(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
