"""The time that `mase_encode` takes, which stands behind exact sums and products."""

from __future__ import annotations

from mase_hw.cells._motion import Blocks, Motion, Steps
from mase_hw.formats import Encoding


def encoder(result: Encoding, lanes: int, size: int) -> Motion:
    """Return how beats of exact values become codes: a register, or blocks that come whole.

    Args:
        result: encoding of the codes.
        lanes: elements of a row of a beat.
        size: elements of a row.
    """
    if not result.is_block:
        return Steps()
    row = -(-size // lanes)
    # Tiles that do not divide a block are refused before emission.
    return Blocks(min(max(result.block_size // lanes, 1), row), row)
