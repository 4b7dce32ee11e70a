"""Cells: the units of hardware, each a class here and a module of its name in `rtl/`."""

from functools import cache

from mase_hw._registry import discover
from mase_hw.cells._base import PARAMETER, Cell, Image, Origin, Origins, Port, Value, fact
from mase_hw.cells._device import Device
from mase_hw.cells._motion import Arrivals, Motion, Queue, Replay, Steps, met
from mase_hw.cells._netlist import Netlist, NetlistBuilder, Wire, in_turn
from mase_hw.cells._operation import Operation
from mase_hw.cells._parts import (
    Adder,
    Compare,
    Fold,
    Gates,
    Level,
    Memory,
    Mux,
    Negation,
    Offset,
    Part,
    Parts,
    Pointer,
    Product,
    Register,
    Rounding,
    Saturation,
    Shifter,
    Sticky,
    Table,
    Turn,
    Zeros,
)
from mase_hw.cells.composite import Composite
from mase_hw.cells.rom_source import RomSource

__all__ = [
    "PARAMETER",
    "Adder",
    "Arrivals",
    "Cell",
    "Compare",
    "Composite",
    "Device",
    "Fold",
    "Gates",
    "Image",
    "Level",
    "Memory",
    "Motion",
    "Mux",
    "Negation",
    "Netlist",
    "NetlistBuilder",
    "Offset",
    "Operation",
    "Origin",
    "Origins",
    "Part",
    "Parts",
    "Pointer",
    "Port",
    "Product",
    "Queue",
    "Register",
    "Replay",
    "RomSource",
    "Rounding",
    "Saturation",
    "Shifter",
    "Steps",
    "Sticky",
    "Table",
    "Turn",
    "Value",
    "Wire",
    "Zeros",
    "cells",
    "fact",
    "in_turn",
    "met",
]


@cache
def cells() -> tuple[type[Cell], ...]:
    """Return every cell, found by walking this folder and the entry points `mase_hw.cells`."""
    return tuple(discover(__name__, Cell, "mase_hw.cells"))  # type: ignore[type-abstract]
