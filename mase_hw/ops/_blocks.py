"""What operators on block formats share: the encoder's timing, and the tiles that it takes."""

from __future__ import annotations

import numpy as np

from mase_hw.errors import ParallelismError, UnsupportedError
from mase_hw.formats._block import BlockFormat
from mase_hw.formats._integer import IntegerElement
from mase_hw.ops._base import Cycles, one_per_cycle
from mase_hw.ops._tensor import TensorSpec

# Formats whose blocks are integers with a shared scale, in hardware one and the same.
INTEGER_BLOCKS = ("mxint", "block_fp")


def block(spec: TensorSpec) -> BlockFormat:
    """Return the block format of a tensor whose elements are integers.

    Raises:
        UnsupportedError: when the tensor has another format, or none.
    """
    if not isinstance(spec.format, BlockFormat) or not isinstance(
        spec.format.element, IntegerElement
    ):
        raise UnsupportedError(f"{spec.format} is no block of integers")
    return spec.format


def is_block(spec: TensorSpec) -> bool:
    """Return whether a tensor comes in blocks of integers."""
    return spec.format is not None and spec.format.name in INTEGER_BLOCKS


def block_problems(name: str, spec: TensorSpec) -> list[str]:
    """Return why a tensor's blocks cannot be streamed; empty when they can."""
    axis = block(spec).blocking[1]
    if axis != -1 and axis != len(spec.shape) - 1:
        return [f"{name} has blocks along dimension {axis}; blocks must lie along the last one"]
    return []


def check_tiles(node: str, name: str, spec: TensorSpec) -> None:
    """Refuse tiles that do not divide the blocks.

    Raises:
        ParallelismError: listing the legal values.
    """
    lanes, size = spec.parallelism[1], block(spec).blocking[0]
    if size % lanes:
        legal = [n for n in range(1, min(size, spec.size[1]) + 1) if size % n == 0]
        raise ParallelismError(
            f"parallelism of {node}: {name}_dim_0 is {lanes}, which does not divide blocks of "
            f"{size}; allowed: {', '.join(map(str, legal))}"
        )


def encoded(result: TensorSpec, entered: Cycles) -> Cycles:
    """Return when `mase_block_encode` offers its tiles, given when they enter, in order."""
    lanes, tiles = result.parallelism[1], result.tiles[1]
    # Tiles that do not divide a block are refused later.
    held = min(max(block(result).blocking[0] // lanes, 1), tiles)
    moved = one_per_cycle(entered).reshape(-1, tiles)
    last = np.minimum((np.arange(tiles) // held + 1) * held, tiles) - 1
    return one_per_cycle(moved[:, last].reshape(-1) + 1) + 1
