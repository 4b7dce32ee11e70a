"""Discovery of units: one file in a folder is one unit, and entry points add third parties'."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
import traceback
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, TypeVar

from mase_hw.errors import MaseError, UnitError

T = TypeVar("T")
# A message lists that many names; of more, the most similar ones.
LISTED, SHOWN = 40, 8


def discover(package: str, base: type[T], group: str | None = None) -> Iterator[type[T]]:
    """Yield every concrete subclass of `base` defined in `package` or by an entry point.

    Args:
        package: dotted name of the folder that is walked, with the folders in it; files and
            classes with a leading underscore are contracts and helpers, not units.
        base: the contract.
        group: entry-point group through which other distributions add units, where they may.
    """
    for module in _files(package):
        for member in vars(module).values():
            if _is_unit(member, base) and member.__module__ == module.__name__:
                yield member
    for entry_point in sorted(entry_points(group=group or ""), key=lambda entry: entry.name):
        yield _loaded(entry_point.load, entry_point.value)


def instances(package: str, base: type[T]) -> Iterator[T]:
    """Yield the instances of `base` that files of a folder hold, each by itself or in a tuple.

    Args:
        package: see `discover`.
        base: the contract.
    """
    for module in _files(package):
        for member in vars(module).values():
            for item in member if isinstance(member, tuple) else (member,):
                if isinstance(item, base):
                    yield item


def _files(package: str) -> Iterator[ModuleType]:
    for name in sorted(modules(package), key=lambda name: name.rpartition(".")[2]):
        yield _loaded(functools.partial(importlib.import_module, name), name)


def _loaded(load: Callable[[], object], name: str) -> Any:
    """Object that a file defines.

    Raises:
        UnitError: naming the line at which it cannot be imported.
    """
    try:
        return load()
    except MaseError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        file, line = where.filename, where.lineno
        if isinstance(error, SyntaxError) and error.filename:
            file, line = error.filename, error.lineno
        raise UnitError(
            f"{name} cannot be imported: {type(error).__name__}: {error} (at {file}:{line})"
        ) from error


def modules(package: str) -> Iterator[str]:
    """Yield the dotted names of the files of a folder and of the folders in it, less `_` files."""
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        name = f"{package}.{info.name}"
        if info.ispkg:
            yield from modules(name)
        elif not info.name.startswith("_"):
            yield name


def _is_unit(member: object, base: type) -> bool:
    return (
        inspect.isclass(member)
        and issubclass(member, base)
        and not inspect.isabstract(member)
        and not member.__name__.startswith("_")
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `name`'s closest matches and what else is known, as the tail of an error message.

    Of a long list, such as the nodes of a large model, only the most similar names are told.
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    if len(names) <= LISTED:
        return f"{hint}known: {', '.join(names)}"
    near = difflib.get_close_matches(name, names, n=SHOWN, cutoff=0.0)
    return f"{hint}known: {', '.join(near)}, and {len(names) - len(near)} others"
