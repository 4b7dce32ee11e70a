"""Products of matrices that both stream: the first row by row, the second from a double buffer.

A sum takes a row of the first operand and a column of the second. Rows come in any order of the
leading dimensions, heads inside tokens for instance, as long as their elements lie side by side: a
row is sent again for every tile of results. What the rows between two others need of the second
operand, the matrices of all heads say, is stored whole, twice, and sent again for each of them.

Where rows of the result or of the first operand grow, as those of causal attention, a row meets as
much of the second operand as it needs: the columns up to its end, or what its own elements meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import torch
from torch import Tensor

from mase_hw.arithmetic.carriers import fixed_of
from mase_hw.arithmetic.fixed_point import fixed, too_wide
from mase_hw.arithmetic.sums import Bounds, exact_dtype, width_for
from mase_hw.cells import Netlist, NetlistBuilder, Wire
from mase_hw.cells.multiply_accumulate import MultiplyAccumulate
from mase_hw.cells.reorder import Reorder
from mase_hw.cells.stream_replay import StreamReplay
from mase_hw.formats.fixed import Fixed
from mase_hw.geometry.reorder import Reordering
from mase_hw.geometry.runs import stream_axes
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import Call, Reference


@dataclass(frozen=True)
class StreamProduct:
    """`data_in_0 @ data_in_1` of two streams in fixed point, exact and rounded once.

    Attributes:
        call: the operator's call.
    """

    call: Call

    def problems(self) -> list[str]:
        """Obstacles between shapes and formats and hardware."""
        data, other = self._specs
        if len(data.shape) < 3 or len(data.shape) != len(other.shape):
            return [
                f"its operands have the shapes {list(data.shape)} and {list(other.shape)}; streams "
                "are multiplied as batches of matrices with as many dimensions each"
            ]
        if data.shape[:-2] != self.call.result.shape[:-2]:
            return [
                f"its first operand, of shape {list(data.shape)}, is repeated along a leading "
                f"dimension to {list(self.call.result.shape)}: expand it before"
            ]
        formats = {name: fixed(spec) for name, spec in self.call.operands.items()}
        return too_wide(lambda **given: width_for(self._sums(*given.values())), **formats)

    @property
    def _specs(self) -> tuple[TensorSpec, TensorSpec]:
        operands = self.call.operands
        return operands["data_in_0"], operands["data_in_1"]

    @property
    def terms(self) -> int:
        """Elements of a sum."""
        return self._specs[0].shape[-1]

    @staticmethod
    def growing() -> list[frozenset[str]]:
        """Groups that may grow from row to row: results, or elements behind which all are zero."""
        return [frozenset({"data_out_0"}), frozenset({"data_in_0"})]

    @cached_property
    def _bounds(self) -> Bounds:
        return self._sums(*map(fixed, self._specs))

    def _sums(self, first: Fixed, second: Fixed) -> Bounds:
        """Return bounds of the sums of codes in two formats."""
        ends = [
            left * right
            for left in (first.minimum_code, first.maximum_code)
            for right in (second.minimum_code, second.maximum_code)
        ]
        return Bounds(min(0, *ends) * self.terms, max(0, *ends) * self.terms)

    def reference(self) -> Reference:
        """Return codes, codes -> codes."""
        dtype, result = exact_dtype(self._bounds), self.call.result.quantized
        fraction = sum(fixed(spec).frac_width for spec in self._specs)

        def compute(first: Tensor, second: Tensor) -> Tensor:
            sums = torch.matmul(first.to(dtype), second.to(dtype)).to(torch.int64)
            return result.from_fixed(sums, fraction)

        return compute

    def exact_result(self) -> Fixed | None:
        """Return a format of all sums; None where there is none."""
        fraction = sum(fixed(spec).frac_width for spec in self._specs)
        return fixed_of(width_for(self._bounds), fraction)

    def orders(self) -> dict[str, Order | None]:
        """The order in which rows are offered, and the second operand block by block."""
        data, other = self._specs
        rank = len(data.shape)
        axes = stream_axes(data) or tuple(range(rank))
        axes = (*(axis for axis in axes if axis != rank - 1), rank - 1)
        if self._scattered(axes):
            axes = (0, rank - 2, *(axis for axis in axes if axis not in (0, rank - 2)))
        outer = [axis for axis in self._outer(axes) if other.shape[axis] > 1]
        given = stream_axes(other) or tuple(range(rank))
        long = [axis for axis in given if other.shape[axis] > 1]
        if long[: len(outer)] != outer:
            given = (*outer, *(axis for axis in range(rank) if axis not in outer))
        return {
            "data_in_0": Order.permuted(data.shape, axes),
            "data_in_1": Order.permuted(other.shape, given),
            "data_out_0": Order.permuted(self.call.result.shape, axes),
        }

    def _outer(self, axes: tuple[int, ...]) -> list[int]:
        """Return the leading dimensions that stream outside of the rows."""
        rank = len(axes)
        outer = axes[: axes.index(rank - 2)]
        return [axis for axis in outer if self.call.result.shape[axis] > 1]

    def _scattered(self, axes: tuple[int, ...]) -> bool:
        """True if a repeated matrix comes again after others, outside of the rows."""
        other = self._specs[1]
        repeated = [other.shape[axis] == 1 for axis in self._outer(axes)]
        return repeated != sorted(repeated)

    @property
    def _axes(self) -> tuple[int, ...]:
        axes = stream_axes(self._specs[0])
        assert axes is not None
        return axes

    @property
    def has_row_tiles(self) -> bool:
        """Whether rows that come together are rows of one matrix."""
        axes = [axis for axis in self._axes if self.call.result.shape[axis] > 1]
        rank = len(self._axes)
        return rank - 2 not in axes or rank - 2 in axes[-2:]

    def hardware(self) -> Netlist:
        """Return a replay of rows, a buffer of columns, and sums."""
        (data, other), result = self._specs, self.call.result
        (rows, in_lanes), out_lanes = data.parallelism, result.parallelism[1]
        in_tiles, out_tiles = data.tiles[1], result.tiles[1]
        beats = result.beats * in_tiles if result.grows else data.beats * out_tiles
        sums = data.growth.times(runs=out_tiles) if data.growth else None
        net = NetlistBuilder(self.call.ports)
        elements = net.input("data_in_0")
        if out_tiles > 1:
            replay = StreamReplay(
                net.port(elements), in_tiles, out_tiles, data.growth, result.growth
            )
            elements = net.add(replay, "replay", data_in=elements)
        columns = self._buffer(net, in_lanes, out_lanes, data.beats * out_tiles)
        cell = MultiplyAccumulate(
            data.quantized.encoding,
            other.quantized.encoding,
            None,
            result.quantized.encoding,
            in_tiles,
            rows,
            in_lanes,
            out_lanes,
            beats,
            accumulator_width=width_for(self._bounds),
            tail=0 if sums else self.terms % in_lanes,
            sums=sums,
        )
        return net.netlist(data_out_0=net.add(cell, data_in_0=elements, weight=columns))

    def _buffer(self, net: NetlistBuilder, in_lanes: int, out_lanes: int, beats: int) -> Wire:
        """Add what stores the second operand and sends it for all rows.

        Args:
            net: of the cells.
            in_lanes: elements of a column that leave together.
            out_lanes: columns that do.
            beats: that whole rows take.
        """
        (data, other), result = self._specs, self.call.result
        columns, (moves, blocks) = net.input("data_in_1"), self._columns(in_lanes, out_lanes)
        width, sent = other.quantized.encoding.width, len(moves.beats_out)
        rows = data.growth or result.growth
        if rows is not None:
            # Of each part of what rows meet between two others, they take as much as they need.
            growth = rows.times(data.tiles[1]) if result.grows else rows.times(1, result.tiles[1])
            repeats = data.rows // blocks * data.shape[-2] // rows.runs
            segments = sent // growth.longest
            buffer = Reorder(width, moves, repeats, blocks, growth, segments)
            return net.add(buffer, "columns", data_in_0=columns)
        repeats = beats // (sent * blocks)
        if not moves.is_wire:
            buffer = Reorder(width, moves, repeats, blocks)
            return net.add(buffer, "columns", data_in_0=columns)
        if repeats == 1:
            return columns
        return net.add(StreamReplay(net.port(columns), sent, repeats), "columns", data_in=columns)

    def _columns(self, in_lanes: int, out_lanes: int) -> tuple[Reordering, int]:
        """Return how a block of the second operand comes and goes, and the number of blocks."""
        leading, outer = self.call.result.shape[:-2], tuple(self._outer(self._axes))
        return _columns(self._specs[1], leading, self._axes, outer, (out_lanes, in_lanes))


@lru_cache(maxsize=64)
def _columns(
    other: TensorSpec,
    leading: tuple[int, ...],
    axes: tuple[int, ...],
    outer: tuple[int, ...],
    parallelism: tuple[int, int],
) -> tuple[Reordering, int]:
    """Return how a block of the second operand comes and goes, and the number of blocks.

    Args:
        other: the second operand.
        leading: its leading dimensions, those of the result.
        axes: dimensions of the first operand in the order of its stream.
        outer: the leading ones outside of the rows.
        parallelism: columns, and elements of each, that leave together.
    """
    blocks = prod(other.shape[axis] for axis in outer)
    entering = other.to_beats(torch.arange(other.elements), fill=-1)
    # Matrices as the rows between two others meet them: columns outside, their elements inside.
    places = torch.arange(other.elements).reshape(other.shape).expand(*leading, -1, -1)
    for axis in outer:
        places = places.narrow(axis, 0, 1)
    rank = len(axes)
    inner = [axis for axis in axes if axis < rank - 2]
    places = places.permute(*inner, rank - 1, rank - 2).flatten(0, rank - 3)
    tiles = TensorSpec(tuple(places.shape), parallelism=parallelism)
    return Reordering(
        entering.reshape(blocks, -1, other.lanes)[0], tiles.to_beats(places, fill=-1)
    ), blocks
