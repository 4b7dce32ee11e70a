"""What no cell describes as a stream with inputs and one output.

The properties of each are a template of their own, `templates/proof/PART.sv.j2`.
"""

from __future__ import annotations

from collections.abc import Iterator

from mase_hw.cells import Cell
from mase_hw.proof._parts._base import Part
from mase_hw.proof._parts._external import AxiReadPort, AxiSource
from mase_hw.proof._parts._loops import LoopExit
from mase_hw.proof._parts._sources import LayerSource, RomSource
from mase_hw.proof._parts._streams import Fork, Gearbox, Join

__all__ = [
    "AxiReadPort",
    "AxiSource",
    "Fork",
    "Gearbox",
    "Join",
    "LayerSource",
    "LoopExit",
    "Part",
    "RomSource",
    "part_of",
    "parts",
]


def parts() -> Iterator[type[Part]]:
    """Yield every part that has proofs."""
    yield from (Fork, Join, Gearbox, RomSource, LayerSource)
    yield from (LoopExit, AxiReadPort, AxiSource)


def part_of(cell: Cell) -> Part | None:
    """Part that a cell is proved as, if any."""
    return next((part for cls in parts() if (part := cls.of(cell))), None)
