"""Members of the archives that registry packages are."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

from mase_hw.errors import DataError

AR_HEADER_BYTES = 60
AR_MAGIC = b"!<arch>\n"


def member(package: Path, name: str) -> bytes:
    """Return the bytes of a member of a wheel, sdist, tgz or deb.

    Args:
        package: the package file.
        name: the member's path, or its end; a leading folder with the version need not be given.

    Raises:
        DataError: when the package has no such member, or several.
    """
    if package.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(package) as wheel:
            return wheel.read(_only(package, name, wheel.namelist()))
    with tarfile.open(fileobj=io.BytesIO(_tar_bytes(package))) as archive:
        files = {item.name: item for item in archive.getmembers() if item.isfile()}
        handle = archive.extractfile(files[_only(package, name, list(files))])
        assert handle is not None
        return handle.read()


def _only(package: Path, name: str, names: list[str]) -> str:
    alike = [item for item in names if item == name or item.endswith(f"/{name}")]
    if len(alike) != 1:
        raise DataError(f"{package.name} has {len(alike)} members called {name}; expected one")
    return alike[0]


def _tar_bytes(package: Path) -> bytes:
    """Return the tar file that a package is, or has inside (`data.tar.*` of a deb)."""
    content = package.read_bytes()
    if not content.startswith(AR_MAGIC):
        return content
    position = len(AR_MAGIC)
    while position < len(content):
        header = content[position : position + AR_HEADER_BYTES]
        start, size = position + AR_HEADER_BYTES, int(header[48:58])
        if header.startswith(b"data.tar"):
            return content[start : start + size]
        position = start + size + size % 2
    raise DataError(f"{package.name} has no data.tar inside")
