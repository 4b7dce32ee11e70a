"""Predicted clock rates: the slowest path of any cell, on an LFE5U-85F of speed 6.

The period of a design is `base + size * log2(LUT + FF) + cells * log2(cells) + level * levels +
carry * carry bits`, for the part of its cells whose levels and carry bits
(`mase_hw.hardware._delay_rules`) take longest. The five coefficients are found on units and chains
that nextpnr placed and routed with a flip-flop at every port; in a checkout,
`python -m tests.bench.refit` makes them again. What lies between cells, such as the handshake of
operands that meet, is not looked at.

The longest path through a component, in look-up tables of four inputs and bits of carry chains.

Components lie between registers, so a cell's longest path is that of one of its components. The
delay of a multiplier or a block memory lies inside it, where its own registers are used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path as File
from typing import Any

from mase_hw import cells as kinds
from mase_hw.cells import Cell, Component

COEFFICIENTS = File(__file__).with_name("clock_coefficients.json")
PART = "LFE5U-85F, speed 6"


@dataclass(frozen=True)
class Delays:
    """The coefficients, in ns.

    Attributes:
        base: of a path without logic in a design of one table.
        size: for each doubling of tables and flip-flops.
        cells: for each doubling of cells.
        level: of a look-up table and the wire to it.
        carry: of a bit of a carry chain.
    """

    base: float
    size: float
    cells: float
    level: float
    carry: float

    def of(self, item: Path) -> float:
        """Return the delay of a path's logic, ns."""
        return self.level * item.levels + self.carry * item.carry_bits

    def period(self, slowest: float, size: float, cells: int) -> float:
        """Return the period of a design, ns.

        Args:
            slowest: delay of the slowest path's logic.
            size: look-up tables and flip-flops.
            cells: number of cells.
        """
        spread = self.size * math.log2(max(size, 2.0)) + self.cells * math.log2(max(cells, 1))
        return self.base + spread + slowest


@dataclass(frozen=True)
class Clock:
    """A predicted clock rate.

    Attributes:
        mhz: highest rate.
        node: node of the slowest cell.
        module: its module.
        levels: look-up tables on its longest path.
        carry_bits: bits of a carry chain on it.
        part: for which FPGA.
    """

    mhz: float
    node: str
    module: str
    levels: float
    carry_bits: int
    part: str = PART

    def to_dict(self) -> dict[str, object]:
        """Return the fields as values of JSON."""
        return {**asdict(self), "mhz": round(self.mhz, 1)}

    def __str__(self) -> str:
        """Return the rate and what limits it."""
        carry = f", {self.carry_bits} bits of carry" if self.carry_bits else ""
        where = f"{self.node} ({self.module}): {self.levels:g} levels of logic{carry}"
        return f"clock about {self.mhz:.0f} MHz on {self.part}, limited by {where}"


@cache
def delays() -> Delays:
    """Return the fitted coefficients."""
    return Delays(**json.loads(COEFFICIENTS.read_text()))


def paths_of(cells: Iterable[Cell]) -> frozenset[Path]:
    """Return the paths through the components of cells."""
    return frozenset(path(component) for cell in cells for component, _ in cell.components.items)


def predicted(cells: Mapping[str, Sequence[Cell]], size: float) -> Clock | None:
    """Return the clock rate of a design; None where it has no cells.

    Args:
        cells: by node.
        size: look-up tables and flip-flops.
    """
    known = delays()
    slowest = max(
        (
            (known.of(item), node, cell.module, item)
            for node, owned in cells.items()
            for cell in owned
            for item in paths_of([cell])
        ),
        key=lambda found: found[0],
        default=None,
    )
    if slowest is None:
        return None
    delay, node, module, item = slowest
    period = known.period(delay, size, sum(map(len, cells.values())))
    return Clock(1e3 / period, node, module, item.levels, item.carry_bits)


INPUTS_LOG = 2
# Multiplexers behind the tables of a function of more inputs, by input: two for the first two.
WIDE_LEVELS = 1.25
CHOICE_LEVELS = 0.6
# Constant words of more bits lie in block memory.
BLOCK_BITS = 8192
# Memories that are written lie there from here on.
BLOCK_MEMORY_BITS = 4096
# What a word of block memory takes without the register behind it, in levels.
BLOCK_LEVELS = 6.0
DISTRIBUTED_ADDRESS = 4


@dataclass(frozen=True)
class Path:
    """A path from register to register.

    Attributes:
        levels: look-up tables.
        carry_bits: bits of a carry chain.
    """

    levels: float = 0.0
    carry_bits: int = 0


def folded(bits: int) -> int:
    """Return the levels of a function of many bits that folds them four at a time."""
    return math.ceil((bits - 1).bit_length() / INPUTS_LOG) if bits > 1 else 0


def chosen(ways: int) -> float:
    """Return the levels of a choice of one of some words."""
    return (max(ways, 1) - 1).bit_length() * CHOICE_LEVELS


def _table(component: kinds.Table) -> Path:
    if component.block or component.words * component.bits > BLOCK_BITS:
        return Path()
    inputs = max(1, (component.words - 1).bit_length())
    return Path(1 + max(0, inputs - DISTRIBUTED_ADDRESS) * WIDE_LEVELS)


def _memory(component: kinds.Memory) -> Path:
    if not component.stages and component.words * component.bits >= BLOCK_MEMORY_BITS:
        return Path(BLOCK_LEVELS)
    inputs = max(component.words - 1, 1).bit_length()
    return Path(1 + max(0, inputs - DISTRIBUTED_ADDRESS) * CHOICE_LEVELS)


def _rounding(component: kinds.Rounding) -> Path:
    return Path(1.0 + (component.lost > 1 << INPUTS_LOG), component.bits)


RULES: Mapping[type[Component], Callable[[Any], Path]] = {
    kinds.Register: lambda component: Path(),
    kinds.Gates: lambda component: Path(component.levels),
    kinds.Counter: lambda component: Path(1),
    kinds.Level: lambda component: Path(1),
    kinds.Pointer: lambda component: Path(1),
    kinds.Adder: lambda component: Path(float(component.gated), component.bits),
    kinds.Offset: lambda component: Path(0, component.bits),
    kinds.Negation: lambda component: Path(1, component.bits),
    # The result of one with a constant has a register, else it chooses.
    kinds.Compare: lambda component: Path(2.0 - component.constant, component.bits),
    kinds.Mux: lambda component: Path(chosen(component.ways)),
    kinds.Fold: lambda component: Path(folded(component.bits)),
    kinds.Rounding: _rounding,
    kinds.Saturation: lambda component: Path(1 + folded(component.above)),
    kinds.Zeros: lambda component: Path(1 + folded(component.bits)),
    kinds.Shifter: lambda component: Path(chosen(component.ways)),
    kinds.Sticky: lambda component: Path(folded(component.bits) + chosen(component.bits) / 2),
    kinds.Product: lambda component: Path(),
    kinds.Table: _table,
    kinds.Memory: _memory,
}


def path(component: Component) -> Path:
    """Return the longest path through a component."""
    return (
        RULES[type(component)](component)
        if isinstance(component, kinds.Table)
        else _known(component)
    )


@cache
def _known(component: Component) -> Path:
    return RULES[type(component)](component)
