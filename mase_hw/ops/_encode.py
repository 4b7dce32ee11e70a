"""How hardware rounds exact values to any format."""

from __future__ import annotations

from mase_hw.geometry.beats import Cycles, one_per_cycle
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._blocks import (
    BLOCKS,
    block_problems,
    check_tiles,
    encoded,
    encoder_depth,
    is_block,
)
from mase_hw.ops._scalars import SCALARS, scalar_problems

ANY = (*SCALARS, *BLOCKS)


def result_problems(spec: TensorSpec) -> list[str]:
    """Return why hardware cannot round to a result's format; empty when it can."""
    if is_block(spec):
        return block_problems("data_out_0", spec)
    return scalar_problems("data_out_0", spec.quantized, result=True)


def result_parameters(node: str, result: TensorSpec) -> dict[str, int | str]:
    """Return the parameter that says whether a result comes in blocks, after a look at its tiles.

    Raises:
        ParallelismError: for tiles that do not divide a block.
    """
    if is_block(result):
        check_tiles(node, "data_out_0", result)
    return {"DATA_OUT_0_BLOCK": int(is_block(result))}


def unread(result: TensorSpec) -> tuple[str, ...]:
    """Return the output ports that a result does not have."""
    return () if is_block(result) else ("data_out_0_exponent",)


def encoder_room(result: TensorSpec) -> int:
    """Return the beats that `mase_encode` holds."""
    return encoder_depth(result) if is_block(result) else 1


def offered(result: TensorSpec, complete: Cycles) -> Cycles:
    """Return when `mase_encode` offers its beats, given when exact values are complete."""
    return encoded(result, complete) if is_block(result) else one_per_cycle(complete) + 1
