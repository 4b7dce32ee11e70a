"""The time that exact values take to become codes, behind sums, products and decoded codes."""

from __future__ import annotations

from mase_hw.cells._motion import Blocks, Chain, Fold, Motion, Steps
from mase_hw.formats import Encoding, Kind

# Cycles of `mase_normalize`, and from there to a scalar float.
NORMALIZE = 6
ROUND = 5
# Of `mase_scaled_cast`, and to move its result around a zero point.
SCALED_CAST = 7
RECENTRE = 2
# From a pipeline into its queue and out of it.
QUEUE = 2


def cast_stages(result: Encoding) -> int:
    """Return the cycles of `mase_scalar_cast`, `cast_stages()` in `rtl/mase_pkg.sv`."""
    if result.kind is Kind.FLOAT:
        return NORMALIZE + ROUND
    if result.kind is Kind.LEVELS and result.width == 1:
        return 0
    return SCALED_CAST + RECENTRE * (result.kind is Kind.OFFSET)


def encoder(stages: int, result: Encoding, lanes: int, size: int) -> Motion:
    """Return how beats become codes whose exact values follow them, `mase_encode`.

    Args:
        stages: cycles from a beat to its exact values.
        result: encoding of the codes.
        lanes: elements of a row of a beat.
        size: elements of a row.
    """
    if not result.is_block:
        return Steps(stages + cast_stages(result) + QUEUE)
    return _blocks(stages + NORMALIZE, result, lanes, size, 1)


def sums_encoder(terms: int, stages: int, result: Encoding, lanes: int, size: int) -> Motion:
    """Return how beats become codes of sums that follow their last beat, `mase_accumulate_encode`.

    Args:
        terms: beats of a sum.
        stages: cycles from the last beat of a sum to the sum.
        result: encoding of the codes.
        lanes: sums of a row of a beat.
        size: elements of a row.
    """
    if not result.is_block:
        return Fold(terms, stages + cast_stages(result) + QUEUE)
    normalized = Fold(terms, stages + NORMALIZE + QUEUE)
    return Chain((normalized, _blocks(0, result, lanes, size, terms)))


def _blocks(stages: int, result: Encoding, lanes: int, size: int, interval: int) -> Motion:
    """Return the motion of `mase_block_encode`: a tree of maxima, and eleven registers."""
    row = -(-size // lanes)
    # Tiles that do not divide a block are refused before emission.
    block = min(max(result.block_size // lanes, 1), row)
    latency = stages + (lanes - 1).bit_length() + 11 + 2 * result.scale_is_float + QUEUE
    return Blocks(block, row, latency, interval)
