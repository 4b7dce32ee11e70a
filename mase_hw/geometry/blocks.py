"""What operators on block formats share: where blocks lie, and which tiles divide them."""

from __future__ import annotations

from mase_hw.errors import ParallelismError, UnsupportedError
from mase_hw.formats import BlockFormat
from mase_hw.geometry.tensor import Order, TensorSpec


def block(spec: TensorSpec) -> BlockFormat:
    """Return the block format of a tensor.

    Raises:
        UnsupportedError: when the tensor has another format, or none.
    """
    if not isinstance(spec.format, BlockFormat):
        raise UnsupportedError(f"{spec.format} is no block")
    return spec.format


def is_block(spec: TensorSpec) -> bool:
    """True if a tensor comes in blocks with a shared scale."""
    return isinstance(spec.format, BlockFormat)


def block_axis(spec: TensorSpec) -> int:
    """Return the dimension of a tensor along which its blocks lie, from 0."""
    axis = block(spec).blocking[1]
    return axis % len(spec.shape) if -len(spec.shape) <= axis < len(spec.shape) else axis


def block_problems(name: str, spec: TensorSpec) -> list[str]:
    """Return why a tensor's blocks cannot be streamed; empty when they can."""
    axis, last = block_axis(spec), len(spec.shape) - 1
    if last == 0:
        return [
            f"{name} has blocks along the batch, its only dimension, which hardware sees one by "
            "one: keep another dimension (keepdim), or configure it as fixed"
        ]
    if axis == last or (axis == 1 and last > 1):
        return []
    legal = "the last one" if last < 2 else "the last one, or along the channels, dimension 1"
    return [f"{name} has blocks along dimension {axis}; blocks must lie along {legal}"]


def block_order(spec: TensorSpec) -> Order | None:
    """Return the order in which the blocks of a tensor come whole."""
    channels = block_axis(spec) != len(spec.shape) - 1
    return Order.channels_last(spec.shape) if channels else None


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
