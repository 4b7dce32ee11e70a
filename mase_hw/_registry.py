"""Discovery of units: one file in a folder is one unit, and entry points add third parties'."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from typing import TypeVar

T = TypeVar("T")
# A message lists that many names; of more, the most similar ones.
LISTED, SHOWN = 40, 8


def discover(package: str, base: type[T], group: str | None = None) -> Iterator[type[T]]:
    """Yield every concrete subclass of `base` defined in `package` or by an entry point.

    Args:
        package: dotted name of the folder that is walked; files with a leading underscore are
            contracts and helpers, not units.
        base: the contract.
        group: entry-point group through which other distributions add units, where they may.
    """
    folder = importlib.import_module(package)
    for module_info in sorted(pkgutil.iter_modules(folder.__path__), key=lambda info: info.name):
        if module_info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{package}.{module_info.name}")
        for member in vars(module).values():
            if _is_unit(member, base) and member.__module__ == module.__name__:
                yield member
    for entry_point in sorted(entry_points(group=group or ""), key=lambda entry: entry.name):
        yield entry_point.load()


def _is_unit(member: object, base: type) -> bool:
    return inspect.isclass(member) and issubclass(member, base) and not inspect.isabstract(member)


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
