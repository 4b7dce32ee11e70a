"""Docstrings of the package: every public method has one, and every one says something.

A method that overrides one of the package's needs none: its contract stands where it is first
defined. Ruff asks for the docstrings of modules, classes and functions.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FOLDERS = ("mase_hw", "sim", "kernels")
LEAST_WORDS = 4


@dataclass(frozen=True)
class Documented:
    """A function, method or class, where it is defined, and what it says."""

    path: Path
    node: Definition
    owner: ast.ClassDef | None

    @property
    def text(self) -> str | None:
        return ast.get_docstring(self.node)

    @property
    def place(self) -> str:
        return f"{self.path}:{self.node.lineno}: {self.node.name}"


@cache
def definitions(root: Path) -> list[Documented]:
    files = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    return [
        Documented(path.relative_to(root), node, owner)
        for path in files
        for node, owner in _walk(ast.parse(path.read_text()), None)
    ]


def _walk(
    tree: ast.AST, owner: ast.ClassDef | None
) -> Iterator[tuple[Definition, ast.ClassDef | None]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            yield node, owner
        within = owner if not isinstance(node, Definition) else None
        yield from _walk(node, node if isinstance(node, ast.ClassDef) else within)


def overrides(items: list[Documented]) -> set[int]:
    """Return the identities of the methods that a base class of the package defines too."""
    classes: dict[str, list[ast.ClassDef]] = {}
    for item in items:
        if isinstance(item.node, ast.ClassDef):
            classes.setdefault(item.node.name, []).append(item.node)

    def inherited(cls: ast.ClassDef, seen: frozenset[int] = frozenset()) -> set[str]:
        names: set[str] = set()
        for base in cls.bases:
            for found in classes.get(_name(base), ()):
                if found is not cls and id(found) not in seen:
                    names |= _members(found) | inherited(found, seen | {id(cls)})
        return names

    known = {id(cls): inherited(cls) for same in classes.values() for cls in same}
    return {
        id(item.node)
        for item in items
        if item.owner is not None and item.node.name in known[id(item.owner)]
    }


def _name(base: ast.expr) -> str:
    if isinstance(base, ast.Subscript):
        base = base.value
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def _members(cls: ast.ClassDef) -> set[str]:
    names = {item.name for item in cls.body if isinstance(item, Definition)}
    names |= {
        item.target.id
        for item in cls.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    return names


def too_short(root: Path) -> list[str]:
    """Return the functions and methods whose docstring has three words or fewer."""
    return [
        f"{item.place}: {item.text!r} says nothing; say more, or leave it out of an override"
        for item in definitions(root)
        if not isinstance(item.node, ast.ClassDef)
        and item.text is not None
        and len(item.text.split()) < LEAST_WORDS
    ]


def missing(root: Path) -> list[str]:
    """Return the public methods without a docstring that override none."""
    items = definitions(root)
    known = overrides(items)
    return [
        f"{item.place}: no docstring"
        for item in items
        if item.owner is not None
        and not item.node.name.startswith("_")
        and not item.owner.name.startswith("_")
        and item.text is None
        and id(item.node) not in known
    ]
