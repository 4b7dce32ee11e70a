"""The longest path through a part, in look-up tables of four inputs and bits of carry chains.

Parts lie between registers, so that a cell's longest path is that of one of its parts. What a
multiplier or a block memory takes lies inside it, where its own registers are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mase_hw import cells as kinds
from mase_hw.cells import Part

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


def _table(part: kinds.Table) -> Path:
    if part.block or part.words * part.bits > BLOCK_BITS:
        return Path()
    inputs = max(1, (part.words - 1).bit_length())
    return Path(1 + max(0, inputs - DISTRIBUTED_ADDRESS) * WIDE_LEVELS)


def _memory(part: kinds.Memory) -> Path:
    if not part.stages and part.words * part.bits >= BLOCK_MEMORY_BITS:
        return Path(BLOCK_LEVELS)
    inputs = max(part.words - 1, 1).bit_length()
    return Path(1 + max(0, inputs - DISTRIBUTED_ADDRESS) * CHOICE_LEVELS)


def _rounding(part: kinds.Rounding) -> Path:
    return Path(1.0 + (part.lost > 1 << INPUTS_LOG), part.bits)


RULES: Mapping[type[Part], Callable[[Any], Path]] = {
    kinds.Register: lambda part: Path(),
    kinds.Gates: lambda part: Path(part.levels),
    kinds.Turn: lambda part: Path(1),
    kinds.Level: lambda part: Path(1),
    kinds.Pointer: lambda part: Path(1),
    kinds.Adder: lambda part: Path(float(part.gated), part.bits),
    kinds.Offset: lambda part: Path(0, part.bits),
    kinds.Negation: lambda part: Path(1, part.bits),
    # The result of one with a constant has a register, else it chooses.
    kinds.Compare: lambda part: Path(2.0 - part.constant, part.bits),
    kinds.Mux: lambda part: Path(chosen(part.ways)),
    kinds.Fold: lambda part: Path(folded(part.bits)),
    kinds.Rounding: _rounding,
    kinds.Saturation: lambda part: Path(1 + folded(part.above)),
    kinds.Zeros: lambda part: Path(1 + folded(part.bits)),
    kinds.Shifter: lambda part: Path(chosen(part.ways)),
    kinds.Sticky: lambda part: Path(folded(part.bits) + chosen(part.bits) / 2),
    kinds.Product: lambda part: Path(),
    kinds.Table: _table,
    kinds.Memory: _memory,
}


def path(part: Part) -> Path:
    """Return the longest path through a part."""
    return RULES[type(part)](part) if isinstance(part, kinds.Table) else _known(part)


@cache
def _known(part: Part) -> Path:
    return RULES[type(part)](part)
