"""Where in the user's own source a node or an error comes from."""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch.fx import Node

from mase_hw.cells import cells
from mase_hw.errors import MaseError, UnitError
from mase_hw.formats import formats
from mase_hw.graph.metadata import SourceLocation
from mase_hw.graph.naming import module_call
from mase_hw.graph.nodes import metadata
from mase_hw.ops import operators

_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in .*)?\s*$')
_TORCH = Path(torch.__file__).resolve().parent
_STANDARD_LIBRARY = Path(sysconfig.get_paths()["stdlib"]).resolve()
_BUILTIN_LIBRARY = Path(re.__file__).resolve().parent.parent
_OURSELVES = Path(__file__).resolve().parent
# Layers that users' models are made of.
_LAYERS = _OURSELVES.parent / "nn.py"
# What makes modules of files: places in the file say more than its own lines.
_IMPORTERS = _OURSELVES.parent / "importers"
# Where operators and what they are made of lie.
_UNITS = [
    _OURSELVES.parent / name
    for name in ("formats", "geometry", "arithmetic", "approximation", "cells", "ops")
]
_GENERATED = ("<eval_with_key>", "<frozen ", "<string>", "<unknown")


class _Frame(NamedTuple):
    file: str
    line: int
    code: str


def location_of_trace(stack_trace: str | None) -> SourceLocation:
    """Return the user's line of a formatted stack trace, as torch keeps it on a node.

    It is the deepest frame outside torch and the standard library; a model built only from
    torch's own containers has none.
    """
    lines = (stack_trace or "").splitlines()
    frames = []
    for number, text in enumerate(lines):
        if match := _FRAME.match(text):
            following = lines[number + 1].strip() if number + 1 < len(lines) else ""
            code = "" if _FRAME.match(following) else following
            frames.append(_Frame(match["file"], int(match["line"]), code))
    return _deepest(frames)


def location_of_error(error: BaseException) -> SourceLocation:
    """Return the user's line that raised `error`."""
    return _deepest(_frames(error))


def _frames(error: BaseException) -> list[_Frame]:
    return [
        _Frame(entry.filename, entry.lineno or 0, entry.line or "")
        for entry in traceback.extract_tb(error.__traceback__)
    ]


@contextlib.contextmanager
def naming_units() -> Iterator[None]:
    """Name the line of an operator's, a cell's or a format's own file that raises an error.

    Raises:
        UnitError: in place of such an error.
    """
    try:
        yield
    except MaseError:
        raise
    except Exception as error:
        frames = [frame for frame in _frames(error) if _is_units(frame.file)]
        if not frames:
            raise
        raise UnitError(
            f"the file of an operator, a cell or a format is at fault: {type(error).__name__}: "
            f"{error} (at {_location(frames[-1])})"
        ) from error


@cache
def _unit_files() -> frozenset[Path]:
    units = (*map(type, operators().values()), *cells(), *formats().values())
    files = (getattr(sys.modules[unit.__module__], "__file__", None) for unit in units)
    return frozenset(Path(file).resolve() for file in files if file is not None)


def _is_units(file: str) -> bool:
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in _UNITS) or path in _unit_files()


def _deepest(frames: Iterable[_Frame]) -> SourceLocation:
    own = [frame for frame in frames if _is_users(frame.file)]
    return _location(own[-1]) if own else SourceLocation()


def _location(frame: _Frame) -> SourceLocation:
    file, line, code = frame
    return SourceLocation(file, line, code or linecache.getline(file, line).strip())


@cache
def _is_users(file: str) -> bool:
    if file.startswith(_GENERATED) or not Path(file).is_absolute():
        return not file.startswith(_GENERATED) and not file.startswith("torch/")
    path = Path(file).resolve()
    if any(map(path.is_relative_to, (_TORCH, _OURSELVES, _IMPORTERS))) or path == _LAYERS:
        return False
    for library in (_STANDARD_LIBRARY, _BUILTIN_LIBRARY):
        if path.is_relative_to(library):
            return "site-packages" in path.relative_to(library).parts
    return True


def origin(node: Node) -> tuple[str, SourceLocation]:
    """Return the module path and the user's source line of a node."""
    known = metadata(node)
    path = module_call(node).path or known.module_path
    source = location_of_trace(node.stack_trace)
    return path, source if source.file else known.source
