"""Cells: the units of hardware, each a class here and a module of its name in `rtl/`."""

from functools import cache

from mase_hw.cells._base import PARAMETER, Cell, Image, Origin, Origins, Port, Value, fact
from mase_hw.cells._components import (
    Adder,
    Compare,
    Component,
    Components,
    Counter,
    Fold,
    Gates,
    Level,
    Logic,
    Memory,
    Mux,
    Negation,
    Offset,
    Pointer,
    Product,
    Register,
    Rounding,
    Saturation,
    Shifter,
    Sticky,
    Table,
    Zeros,
)
from mase_hw.cells._device import Device
from mase_hw.cells._motion import Arrivals, Motion, Queue, Replay, Steps, met
from mase_hw.cells._netlist import Netlist, NetlistBuilder, Wire, multiplexed
from mase_hw.cells._operation import Operation
from mase_hw.cells._pipeline import stream_pipeline
from mase_hw.cells.composite import Composite
from mase_hw.cells.rom_source import RomSource
from mase_hw.registry import discover

__all__ = [
    "PARAMETER",
    "Adder",
    "Arrivals",
    "Cell",
    "Compare",
    "Component",
    "Components",
    "Composite",
    "Counter",
    "Device",
    "Fold",
    "Gates",
    "Image",
    "Level",
    "Logic",
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
    "Value",
    "Wire",
    "Zeros",
    "cells",
    "fact",
    "met",
    "multiplexed",
    "stream_pipeline",
]


@cache
def cells() -> tuple[type[Cell], ...]:
    """Return every cell, found by walking this folder and the entry points `mase_hw.cells`."""
    return tuple(discover(__name__, Cell, "mase_hw.cells"))  # type: ignore[type-abstract]
