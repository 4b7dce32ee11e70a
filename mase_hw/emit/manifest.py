"""What emission wrote into a folder: only that is ever replaced."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mase_hw.errors import EmissionError

MANIFEST_FILE = "manifest.json"
MANIFEST_VERSION = 1
# What runs of the project leave, and make again.
_DISPOSABLE = ("__pycache__", "sim/build")


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
        return cls({name: _sum(folder / name) for name in sorted(_files(folder))})

    @classmethod
    def load(cls, folder: Path) -> Manifest | None:
        """Read the manifest of a folder; None when there is none that this release wrote."""
        try:
            entry = json.loads((folder / MANIFEST_FILE).read_text())
            files = entry["files"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        known = entry.get("version") == MANIFEST_VERSION and isinstance(files, dict)
        return cls({str(name): str(item) for name, item in files.items()}) if known else None

    def write(self, folder: Path) -> None:
        """Write `manifest.json`."""
        entry = {"version": MANIFEST_VERSION, "files": dict(self.files)}
        (folder / MANIFEST_FILE).write_text(json.dumps(entry, indent=2) + "\n")

    def changed(self, folder: Path) -> list[str]:
        """Return the files that are not as they were written; what is gone is nobody's loss."""
        return [
            name
            for name, expected in self.files.items()
            if (folder / name).exists() and _sum(folder / name) != expected
        ]

    def foreign(self, folder: Path) -> list[str]:
        """Return the files that emission did not write, without what runs leave."""
        return sorted(
            name
            for name in _files(folder)
            if name not in self.files and name != MANIFEST_FILE and not _is_disposable(name)
        )


def keep_foreign(old: Path, new: Path) -> None:
    """Copy what others put into the folder of a project into the one that takes its place.

    Raises:
        EmissionError: for a file of theirs that has the name of a new one of ours.
    """
    manifest = Manifest.load(old)
    for name in manifest.foreign(old) if manifest else ():
        target = new / name
        if target.exists() or any(item.is_file() for item in target.parents):
            raise EmissionError(
                f"{old / name} was not written by mase-hw, and the new project has a file of that "
                "name; move yours away"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(old / name, target, follow_symlinks=False)


def _files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _is_disposable(name: str) -> bool:
    parts = f"/{name}/"
    return any(f"/{item}/" in parts for item in _DISPOSABLE)


def _sum(path: Path) -> str:
    if path.is_dir():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
