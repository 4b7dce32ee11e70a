"""The longest path through a component, in look-up tables of four inputs and bits of carry chains.

Components lie between registers, so a cell's longest path is that of one of its components. The
delay of a multiplier or a block memory lies inside it, where its own registers are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mase_hw import cells as kinds
from mase_hw.cells import Component

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
