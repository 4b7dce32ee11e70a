"""Tensors one after another along a dimension (torch.cat).

In a stream that is, round by round, the beats of the first tensor and then those of the second.
Along the lanes' dimension the second tensor's lanes move up to fill the first one's last beat. More
than two tensors are joined two by two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw._kinds import Record
from mase_hw.cells import Netlist, NetlistBuilder
from mase_hw.cells.cat import Cat as CatCell
from mase_hw.geometry.runs import stream_axes
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import (
    Apply,
    Attributes,
    Call,
    Example,
    Reference,
    along_batch,
    example,
    example_values,
    torch_target,
)
from mase_hw.ops._interfaces import Ordered, Rewritten, Tiled
from mase_hw.ops._library import define
from mase_hw.ops.movement._moves import Moves


def _joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    if dim % tensors[0].dim() == 0:
        return torch.cat(tuple(tensors))
    count = max(len(tensor) for tensor in tensors)
    return torch.cat([tensor.expand(count, *tensor.shape[1:]) for tensor in tensors], dim)


define("cat(Tensor[] tensors, int dim=0) -> Tensor", _joined)


class Cat(Moves, Rewritten, Ordered, Tiled):
    """`y = [x_0, x_1]`; all in one format."""

    name = "cat"
    targets = (
        "mase.cat.default",
        "aten.cat.default",
        "aten.concat.default",
        "aten.concatenate.default",
    )
    casts = True
    shares_format = True

    def dim(self, call: Call) -> int:
        """Return the dimension, counted from the front."""
        return int(call.attributes["dim"]) % len(call.result.shape)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Join more than two tensors two by two; drop those without elements."""
        parts = [item for name, item in operands.items() if call.operands[name].elements]
        if len(parts) == len(operands) == 2:
            return None
        join, dim = torch_target(self.targets[0]), self.dim(call)
        while len(parts) > 2:
            parts = [
                join(parts[i : i + 2], dim) if i + 1 < len(parts) else parts[i]
                for i in range(0, len(parts), 2)
            ]
        joined = join(parts, dim) if len(parts) == 2 else aten.alias.default(parts[0])
        return [joined]

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if self.dim(call) == 0 and any(spec.shape[0] == 1 for spec in call.streams.values()):
            problems.append(along_batch("it joins", "join another dimension"))
        if not call.streams:
            problems.append("all operands are constant")
        return problems

    def reference(self, call: Call) -> Reference:
        dim, streams = self.dim(call), list(call.streams)
        constants = {name: call.constant_codes(name) for name in call.constants}

        def compute(*codes: Tensor) -> Tensor:
            operands = {**constants, **dict(zip(streams, codes, strict=True))}
            whole = [
                operands[name].reshape(-1, *spec.shape) for name, spec in call.operands.items()
            ]
            return _joined(whole, dim + 1).flatten(0, 1)

        return compute

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        members = [operands[f"data_in_{number}"] for number in range(len(operands))]
        return _joined(members, int(arguments["dim"]))

    def orders(self, call: Call) -> dict[str, Order | None]:
        rank = len(call.result.shape)
        offered = [stream_axes(spec) for spec in call.streams.values() if spec.order is not None]
        axes = next((axes for axes in offered if axes is not None), tuple(range(rank)))
        specs = {**call.operands, **call.results}
        return {name: Order.permuted(spec.shape, axes) for name, spec in specs.items()}

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return {(name, 1): 1 for name in (*call.streams, *call.results)}

    def _constants(self, call: Call) -> dict[str, TensorSpec]:
        """A constant in the order and tiles of the result."""
        axes, lanes = stream_axes(call.result) or (), call.result.parallelism
        return {
            name: replace(spec, order=Order.permuted(spec.shape, axes), parallelism=lanes)
            for name, spec in call.operands.items()
            if name in call.constants
        }

    def hardware(self, call: Call) -> Netlist:
        result, dim, net = call.result, self.dim(call), NetlistBuilder(call.ports)
        wires: Record = {
            name: net.source(name, spec, partial(call.constant_codes, name))
            for name, spec in self._constants(call).items()
        }
        wires |= {name: net.input(name) for name in call.streams}
        axes = stream_axes(result) or ()
        place, lanes = axes.index(dim), result.parallelism[1]
        sizes = [call.operands[name].shape[dim] for name in ("data_in_0", "data_in_1")]
        if place == len(axes) - 1:
            first, second = (-(-size // lanes) for size in sizes)
            beats, shift = result.tiles[1], sizes[0] % lanes
        else:
            inner = prod(result.shape[axis] for axis in axes[place + 1 : -1]) * result.tiles[1]
            first, second = (size * inner for size in sizes)
            beats, shift = first + second, 0
        width, waits = result.quantized.encoding.width, "data_in_0" in call.constants
        cell = CatCell(width, lanes, first, second, beats, shift, waits, result.beats // beats)
        return net.netlist(data_out_0=net.add(cell, **wires))

    def examples(self) -> list[Example]:
        images = (example_values(2, 3, 2, 2), example_values(2, 4, 2, 2, seed=1))
        rows = (example_values(2, 2, 4), example_values(2, 3, 4, seed=1))
        constant = example_values(1, 5, seed=3)
        return [
            (Apply(lambda x, y: torch.cat([x, y], 1)), images),
            (Apply(lambda x, y: torch.cat([x, y], 1)), rows),
            example(
                lambda x, y, z: torch.cat([x, y, z], -1),
                (2, 4),
                example_values(2, 5),
                example_values(2, 7),
            ),
            example(
                Apply(lambda x, c: torch.cat([c.expand(x.shape[0], 5), x], 1), constant),
                rows[0][:, 0],
            ),
        ]
