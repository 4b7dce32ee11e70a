"""Which tests of the full tier run: shards, and what the imports of a file reach."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from tests._quality import OUTSIDE, ROOT


@dataclass(frozen=True)
class Shard:
    """One of several parts of equal size; every test is in one of them.

    Attributes:
        number: counted from 1.
        count: how many parts there are.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `K/N`.

        Raises:
            argparse.ArgumentTypeError: unless 1 <= K <= N.
        """
        match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text, re.ASCII)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise argparse.ArgumentTypeError(f"{text!r} is no K/N with 1 <= K <= N, such as 1/12")
        return cls(int(match[1]), int(match[2]))

    def holds(self, name: str) -> bool:
        """Return whether a test's node id belongs to the shard."""
        return crc32(name.encode()) % self.count == self.number - 1


def beyond_first(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the items of the full tier whose test has the marker `first`.

    Its arguments are how many items of a test the first tier has, or their ids.
    """
    counts: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("first")
        if marker is not None:
            test, _, name = item.nodeid.partition("[")
            counts[test] += 1
            count = next((arg for arg in marker.args if isinstance(arg, int)), 0)
            if counts[test] > count and name[:-1] not in marker.args:
                yield item


def selected(request: pytest.FixtureRequest, parameter: str, every: Iterable[str]) -> list[str]:
    """Return the values of a parameter in the selected tests that use a fixture.

    They are all values where one of these tests does not have the parameter.
    """
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    users = [
        getattr(item, "callspec", None)
        for item in tests
        if item.path == request.path and request.fixturename in item.fixturenames
    ]
    if any(spec is None or parameter not in spec.params for spec in users):
        return list(every)
    return list(dict.fromkeys(spec.params[parameter] for spec in users if spec))


@cache
def distances(base: str) -> dict[Path, int]:
    """Return the number of imports from each test file to the nearest file that changed.

    Args:
        base: the commit that the working tree is compared with.

    Raises:
        pytest.UsageError: where there is no git, no repository, or no such commit.
    """
    users: dict[Path, set[Path]] = {}
    for path in _sources():
        for other in _imported(path):
            users.setdefault(other, set()).add(path)
    edge = set(_changed(base))
    lengths = dict.fromkeys(edge, 0)
    while edge:
        edge = {user for path in edge for user in users.get(path, ())} - lengths.keys()
        lengths |= dict.fromkeys(edge, max(lengths.values()) + 1)
    return {path: count for path, count in lengths.items() if path.name.startswith("test_")}


def _changed(base: str) -> Iterator[Path]:
    """Yield the Python files that changed, and those that stand for another file that did.

    That are the file of the same name, of a cell and its module, and those that name it.
    """
    for name in _differing(base):
        path = ROOT / name
        if path.suffix == ".py":
            yield path
        elif path.suffix != ".md" and path.parent != ROOT:
            word = re.compile(rf"\b{re.escape(path.stem)}\b")
            unit = path.stem.removeprefix("mase_")
            users = [item for item in _sources() if item.stem == unit or word.search(_text(item))]
            yield from users or [ROOT / "mase_hw" / "cells" / "__init__.py"]


def _differing(base: str) -> Iterable[str]:
    changed = ["diff", "--name-only", base, "--"]
    for command in (changed, ["ls-files", "--others", "--exclude-standard"]):
        try:
            done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True)
        except FileNotFoundError:
            raise pytest.UsageError(f"--touched {base}: git is not installed") from None
        if done.returncode:
            raise pytest.UsageError(f"--touched {base}: {done.stderr.splitlines()[0]}")
        yield from done.stdout.splitlines()


@cache
def _sources() -> list[Path]:
    folders = ("mase_hw", *OUTSIDE, "tests")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _imported(path: Path) -> set[Path]:
    """Return the files that a file imports.

    A package of the product stands for all files of its folder, which registries walk.
    """
    names: list[str] = []
    for node in ast.walk(ast.parse(_text(path))):
        if isinstance(node, ast.Import):
            names += [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{item.name}" for item in node.names)]
    files = {file for name in names if (file := _file(name))}
    if path.name == "__init__.py" and path.parent not in (ROOT / "mase_hw", ROOT / "tests"):
        files |= {*path.parent.glob("*.py"), *path.parent.glob("*/__init__.py")}
    return files - {path}


@cache
def _file(module: str) -> Path | None:
    parts = module.split(".")
    if parts[0] == "mase_hw" and parts[1:2] and parts[1] in OUTSIDE:
        parts = parts[1:]
    place = ROOT.joinpath(*parts)
    files = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in files if file.is_file()), None)
