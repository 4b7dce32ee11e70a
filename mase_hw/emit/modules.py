"""The SystemVerilog that a design needs, and whether its instances fit their modules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from mase_hw.cells import Cell, Composite
from mase_hw.emit.design import Design, Instance, declared_names, library
from mase_hw.emit.render import module_section, render_module
from mase_hw.errors import EmissionError


def module_texts(cells: Iterable[Cell]) -> dict[str, str]:
    """Return the text of the cells' modules and of all they name, packages first.

    Raises:
        EmissionError: when there is no such module, or two of a name.
    """
    given: dict[str, tuple[Cell, str]] = {}
    for cell in cells:
        _add(cell, given)
    return with_inner_texts(given, {name: text for name, (_, text) in given.items()})


def with_inner_texts(modules: Iterable[str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the text of modules and of all they name, packages first.

    Args:
        modules: their names.
        own: texts that are not those of the library.
    """
    texts = {**library(), **own}
    found = dict[str, str]()
    open_ = [*modules]
    while open_:
        module = open_.pop()
        if module not in found:
            found[module] = texts[module]
            words = set(re.findall(r"\b[A-Za-z_]\w*", texts[module]))
            open_ += [word for word in words if word in texts]
    order = sorted(found, key=lambda name: (not _is_package(name), name))
    return {name: found[name] for name in order}


def _add(cell: Cell, texts: dict[str, tuple[Cell, str]]) -> None:
    """Note the text of a cell's module, and of those inside it."""
    name = cell.module
    if name in texts and _same(texts[name][0], cell):
        return
    if isinstance(cell, Composite):
        text = render_module(cell)
        for item in cell.netlist.cells.values():
            _add(item, texts)
    elif cell.source is not None:
        text = cell.source.read_text()
    elif name in library():
        text = library()[name]
    else:
        raise EmissionError(
            f"there is no module {name} for the cell {type(cell).__name__}: neither in the library "
            "nor beside its class"
        )
    if texts.setdefault(name, (cell, text))[1] != text or library().get(name, text) != text:
        raise EmissionError(f"two modules are called {name}; rename one")


def _same(left: Cell, right: Cell) -> bool:
    """True if two cells certainly have one text."""
    if isinstance(left, Composite) and isinstance(right, Composite):
        return left.shape == right.shape
    return type(left) is type(right)


def _is_package(name: str) -> bool:
    return name.endswith("_pkg")


def check_instances(design: Design) -> None:
    """Refuse an instance that names a port or a parameter which its module lacks.

    Raises:
        EmissionError: naming the node, the cell, and what its module has.
    """
    texts: dict[str, tuple[Cell, str]] = {}
    for instance in design.instances:
        known = instance.module in texts
        try:
            _add(instance.cell, texts)
            for item in [instance] if known else _with_inner(instance):
                _check(item, texts[item.module][1])
        except EmissionError as error:
            raise EmissionError(f"{instance.node}: {error}") from None


def _with_inner(instance: Instance) -> Iterator[Instance]:
    """Yield an instance, and those inside its module."""
    yield instance
    if isinstance(instance.cell, Composite):
        for item in module_section(instance.cell).instances:
            yield from _with_inner(item)


def _check(instance: Instance, text: str) -> None:
    """Compare an instance with the header of its module."""
    cell = type(instance.cell).__name__
    names = {
        "port": frozenset(instance.port_names) | {"clk", "rst"},
        "parameter": frozenset(instance.cell.arguments) | frozenset(instance.cell.images),
    }
    declared = declared_names(instance.module, text)
    for what, given in names.items():
        missing = sorted(given - declared[what])
        if missing:
            raise EmissionError(
                f"the cell {cell} has the {what} {missing[0]!r}, its module {instance.module} has "
                f"{', '.join(sorted(declared[what])) or 'no other'}"
            )
    unconnected = sorted(declared["port"] - names["port"])
    if unconnected:
        raise EmissionError(
            f"the module {instance.module} has the port {unconnected[0]!r}, the cell {cell} does "
            "not connect it"
        )
