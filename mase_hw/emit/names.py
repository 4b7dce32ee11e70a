"""Names in the top: of encodings, and whether any two collide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mase_hw.emit.design import Design, Section
from mase_hw.errors import EmissionError
from mase_hw.formats import Encoding, Overflow, Rounding
from mase_hw.graph.naming import SYSTEMVERILOG_KEYWORDS

MAX_NAME = 200
PORTS = ("clk", "rst", "MEM_DIR", "M_AXI_BASE_ADDRESS")


def name_formats(sections: Sequence[Section]) -> dict[Encoding, str]:
    """Return a name for every encoding that a parameter of the top's instances has."""
    names: dict[Encoding, str] = {}
    used: set[str] = set()
    for section in sections:
        for instance in section.instances:
            for value in instance.cell.parameters.values():
                if isinstance(value, Encoding) and value not in names:
                    stem = format_name(value)
                    name = next(item for item in _numbered(stem) if item not in used)
                    names[value] = name
                    used.add(name)
    return names


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    number = 1
    while True:
        number += 1
        yield f"{stem}_{number}"


def format_name(encoding: Encoding) -> str:
    """Return a short name of an encoding, such as `Fixed8x4` or `Float8e4`."""
    name = encoding.kind.label(encoding)
    if encoding.is_block:
        name = f"{name.removesuffix('x0')}Block{encoding.block_size}"
    if encoding.rounding is not Rounding.NEAREST_EVEN:
        name += encoding.rounding.value
    if encoding.overflow is not Overflow.SATURATE:
        name += encoding.overflow.value
    return name


def check_names(design: Design) -> None:
    """Refuse names that are no identifiers, too long, or given twice.

    Raises:
        EmissionError: naming both owners, and what to rename.
    """
    owners = dict.fromkeys(PORTS, "a port or parameter of the top")
    for name, owner in _declared(design):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in SYSTEMVERILOG_KEYWORDS:
            raise EmissionError(f"{owner}: {name!r} is no name in SystemVerilog; rename the layer")
        if len(name) > MAX_NAME:
            raise EmissionError(
                f"{owner[:60]}...: the name {name[:40]}... has {len(name)} characters, at most "
                f"{MAX_NAME} are allowed; rename the layer"
            )
        if name in owners:
            raise EmissionError(
                f"{owner} and {owners[name]} are both called {name} in the top; rename a layer"
            )
        owners[name] = owner


def _declared(design: Design) -> Iterator[tuple[str, str]]:
    """Yield every name that the top declares, with its owner."""
    for stream in (*design.inputs, *design.outputs):
        yield from _signals(stream.name, [item.suffix for item in stream.fields], "a port")
    for name in design.formats.values():
        yield name, "a number format"
    for name in design.tensor_parameters:
        yield name, "a parameter of the top"
    for section in design.sections:
        node = section.instances[0].node if section.instances else ""
        for net in section.nets:
            owner = f"a stream of {node}" if node else f"the stream {net.name}"
            yield from _signals(net.name, [item.suffix for item in net.fields], owner)
        for instance in section.instances:
            yield instance.name, f"an instance of {instance.node}"
            yield from ((name, f"a net of {instance.node}") for name in instance.unused)


def _signals(name: str, suffixes: Sequence[str], owner: str) -> Iterator[tuple[str, str]]:
    yield from ((f"{name}{suffix}", owner) for suffix in (*suffixes, "_valid", "_ready"))
