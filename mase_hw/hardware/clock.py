"""Predicted clock rates: the slowest path of any cell, on an LFE5U-85F of speed 6.

The period of a design is `base + size * log2(LUT + FF) + cells * log2(cells) + level * levels +
carry * carry bits`, for the part of its cells whose levels and carry bits
(`mase_hw.hardware._delay_rules`) take longest. The five coefficients are found on units and chains
that nextpnr placed and routed with a flip-flop at every port; in a checkout,
`python -m tests.bench.refit` makes them again. What lies between cells, such as the handshake of
operands that meet, is not looked at.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path as File

from mase_hw.cells import Cell
from mase_hw.hardware._delay_rules import Path, path

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
