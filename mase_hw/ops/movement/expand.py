"""A tensor repeated along dimensions of size 1 (torch.Tensor.expand).

In a stream a repeated dimension sends the beats inside it again and again; along the lanes it
copies one lane to all.

Rows that are the same for every inference, as a stream (a constant that is expanded to a batch).

What takes a constant takes it without this. Elsewhere, as for learned queries of attention, one
element of an inference, times zero, begins each copy: `y = 0 x_0 + c`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod
from typing import Any

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.arithmetic.fixed_point import is_fixed
from mase_hw.cells import Netlist, NetlistBuilder
from mase_hw.cells.copy_lanes import CopyLanes
from mase_hw.cells.reorder import Reorder
from mase_hw.cells.stream_replay import StreamReplay
from mase_hw.geometry.reorder import Reordering
from mase_hw.geometry.runs import stream_axes
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Apply, Call, Example, Reference, example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops._interfaces import Growing, Ordered, Removable, Rewritten, Tiled
from mase_hw.ops._library import define
from mase_hw.ops._masking import Repeating
from mase_hw.ops.movement._indices import aligned_order
from mase_hw.ops.movement._moves import Moves


class Expand(Moves, Rewritten, Removable, Ordered, Tiled, Growing):
    """`y[i, j] = x[i, 0]`."""

    name = "expand"
    targets: tuple[str, ...] = ("aten.expand.default", "aten.expand_as.default")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if len(operands) == 1:
            return None
        size = [-1, *call.result.shape[1:]]
        return [aten.expand.default(operands["data_in_0"], size)]

    def is_identity(self, call: Call) -> bool:
        return call.operands["data_in_0"].shape == call.result.shape

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        data, result = call.operands["data_in_0"].shape, call.result.shape
        if len(data) < len(result) and data[:1] == (1,) and result[0] != 1:
            problems.append("it expands the batch; keep the batch dimension first")
        return problems

    def reference(self, call: Call) -> Reference:
        data, result = call.operands["data_in_0"].shape, call.result.shape
        aligned = (1,) * (len(result) - len(data)) + data

        def compute(codes: Tensor) -> Tensor:
            return codes.reshape(-1, *aligned).expand(-1, *result).flatten(0, 1)

        return compute

    def orders(self, call: Call) -> dict[str, Order | None]:
        data, result = call.operands["data_in_0"], call.result
        rank = len(result.shape)
        axes = stream_axes(data) if len(data.shape) == rank else None
        axes = axes or tuple(range(rank))
        return {
            "data_in_0": aligned_order(data, rank, axes),
            "data_out_0": Order.permuted(result.shape, axes),
        }

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        sizes = call.operands["data_in_0"].size, call.result.size
        return [
            [("data_in_0", dim), ("data_out_0", dim)]
            for dim in (0, 1)
            if sizes[0][1 - dim] == sizes[1][1 - dim]
        ]

    def hardware(self, call: Call) -> Netlist:
        data, result = call.operands["data_in_0"], call.result
        stages, copies = self._stages(call), data.lanes != result.lanes
        net, port = NetlistBuilder(call.ports), call.ports["data_in_0"]
        wire = net.input("data_in_0")
        if result.growth is not None:
            row = torch.arange(result.tiles[1] * result.lanes).reshape(-1, result.lanes)
            width, times = data.quantized.encoding.width, result.rows
            again = Reorder(width, Reordering(row, row), times, growth=result.growth)
            return net.netlist(data_out_0=net.add(again, data_in_0=wire))
        for number, (block, repeats) in enumerate(stages, 1):
            name = f"repeat_{number}" if copies or number < len(stages) else ""
            wire = net.add(StreamReplay(port, block, repeats), name, data_in=wire)
            port = replace(port, beats=port.beats * repeats)
        if copies:
            width = data.quantized.encoding.width
            cell = CopyLanes(width, *data.parallelism, *result.parallelism, port.beats)
            wire = net.add(cell, data_in_0=wire)
        return net.netlist(data_out_0=wire)

    def growing(self, call: Call) -> list[frozenset[str]]:
        data, result = call.operands["data_in_0"], call.result
        row = self._stages(call) == [(data.beats, result.rows)] and data.lanes == result.lanes
        return [frozenset({"data_out_0"})] if row and is_fixed(data) else []

    def _stages(self, call: Call) -> list[tuple[int, int]]:
        """Return (beats of a block, times it is sent) for each run of repeated dimensions.

        The outermost comes first, so that its block is that of the operand.
        """
        before, after = _grid(call.operands["data_in_0"]), _grid(call.result)
        before = (1,) * (len(after) - len(before)) + before
        pairs = [(old, new) for old, new in zip(before, after, strict=True) if new > 1]
        stages, outer = [], 0
        for repeated, run in groupby(pairs, lambda pair: pair[0] != pair[1]):
            sizes = list(run)
            outer += len(sizes)
            if repeated:
                block = prod(old for old, _ in pairs[outer:])
                stages.append((block, prod(new for _, new in sizes)))
        return stages

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.expand(-1, 4, -1), (2, 1, 5)),
            example(lambda x: x.expand(-1, -1, 5), (2, 3, 1)),
            example(lambda x: x.expand(-1, 2, -1, 4), (2, 1, 3, 1)),
            example(lambda x, y: x.expand_as(y) + y, (2, 1, 3), example_values(2, 2, 3)),
        ]


def _grid(spec: Any) -> tuple[int, ...]:
    """Return the beats along each dimension of a stream."""
    return (*spec.stream_shape[:-2], *spec.tiles)


def _repeated(values: Tensor, like: Tensor) -> Tensor:
    return values.repeat(like.shape[0], *[1] * (values.dim() - 1))


define("rows_like(Tensor self, Tensor like) -> Tensor", _repeated)


class RowsLike(Composite, Repeating):
    """A constant for each row of a stream."""

    name = "rows_like"
    counted_argument = "like"
    targets = ("mase.rows_like.default",)
    operand_names: Mapping[str, str] = {"self": "data_in_0", "like": "data_in_1"}

    def problems(self, call: Call) -> list[str]:
        if list(call.constants) != ["data_in_0"]:
            return ["what it repeats for every row is computed; only constants are repeated"]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if list(call.constants) != ["data_in_0"]:
            return None
        shape = call.operands["data_in_0"].shape
        flat = aten.reshape.default(
            operands["data_in_1"], [-1, call.operands["data_in_1"].elements]
        )
        zero = aten.mul.Tensor(aten.slice.Tensor(flat, 1, 0, 1), 0)
        zero = aten.reshape.default(zero, [-1, *[1] * len(shape)])
        constant, rows = operands["data_in_0"], call.operands["data_in_1"].shape[0]
        if rows > 1:
            # Those of one inference, as of heads that are merged with the batch.
            constant = aten.repeat.default(constant, [rows, *[1] * (len(shape) - 1)])
        repeated = aten.add.Tensor(zero, aten.unsqueeze.default(constant, 0))
        if call.result.dtype == "bool":
            repeated = aten.ne.Scalar(repeated, 0)
        return [aten.reshape.default(repeated, [-1, *shape[1:]])]

    def examples(self) -> list[Example]:
        attention = torch.nn.functional.scaled_dot_product_attention

        def looked_up(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            heads = x.reshape(-1, 3, 4) * 2
            return heads.gather(-1, index.expand(heads.shape[0], -1, -1)).reshape(-1, 2, 3, 2)

        return [
            example(
                Apply(
                    lambda x, c: attention(c.expand(x.shape[0], -1, -1), x, x),
                    example_values(1, 2, 3),
                ),
                (2, 4, 3),
            ),
            example(
                Apply(
                    lambda x, c: torch.baddbmm(c, x, c.expand(x.shape[0], -1, -1)),
                    example_values(1, 3, 3),
                ),
                (2, 3, 3),
            ),
            example(Apply(looked_up, torch.tensor([[[0, 3], [2, 1], [1, 1]]])), (2, 2, 3, 4)),
        ]
