"""The choice of the arithmetic of an element-wise call: one for every call, made here."""

from __future__ import annotations

from typing import Any

from mase_hw.arithmetic.fixed_point import is_fixed
from mase_hw.formats import BLOCKS, SCALED, Family
from mase_hw.geometry.blocks import is_block
from mase_hw.ops._base import Call
from mase_hw.ops._block_elements import BlockElements
from mase_hw.ops._elements import Elements
from mase_hw.ops._fixed_elements import FixedElements
from mase_hw.ops._float_elements import FloatElements

ELEMENTWISE = frozenset({Family.FIXED, Family.FLOAT}) | BLOCKS
FUNCTIONS = ELEMENTWISE | SCALED


def elements_of(call: Call) -> Elements[Any]:
    """Return the arithmetic of a call."""
    specs = (*call.operands.values(), *call.results.values())
    if any(map(is_block, specs)):
        return BlockElements(call)
    return FixedElements(call) if is_fixed(*specs) else FloatElements(call)
