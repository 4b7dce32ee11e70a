"""What passes insert between operators: queues, copies, other tilings, boundaries of loops."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mase_hw.cells import Netlist, NetlistBuilder
from mase_hw.cells.cat import Cat as CatCell
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import (
    Apply,
    Attributes,
    Call,
    Example,
    Reference,
    example,
    example_values,
    torch_target,
)
from mase_hw.ops._interfaces import Ordered, Tiled
from mase_hw.ops._library import copied, define
from mase_hw.ops.movement._moves import Layout, Moves, Wire
from mase_hw.ops.movement.expand import Expand

define("fifo(Tensor self, int depth) -> Tensor", copied)


class Fifo(Wire):
    """The identity, `depth` beats deep."""

    name = "fifo"
    targets = ("mase.fifo.default",)
    role = "fifo"

    def hardware(self, call: Call) -> Netlist:
        (port,) = call.ports.values()
        return Netlist.single(call.ports, StreamFifo(port, int(call.attributes["depth"])))

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        return [example(lambda x: target(x, 3), (3, 11))]


define("broadcast(Tensor self, SymInt[] size) -> Tensor", torch.Tensor.expand)


class Broadcast(Expand):
    """`expand`, in the order of elements that it was made for."""

    name = "broadcast"
    targets = ("mase.broadcast.default",)
    role = "broadcast"

    def orders(self, call: Call) -> dict[str, Order | None]:
        return {"data_in_0": call.operands["data_in_0"].order, "data_out_0": call.result.order}

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        return [
            example(lambda x: target(x, [-1, 4, 5]), (2, 1, 5)),
            example(lambda x: target(x, [-1, 3, 5]), (2, 3, 1)),
        ]


define("loop_boundary(Tensor self, int loop=0, int state=0, int number=0) -> Tensor", copied)


class LoopBoundary(Wire):
    """The identity at a boundary of equal layers, which run in rounds on the hardware of one.

    `loop_boundary(x, loop, state, number)` is boundary `number` of a state, which is a tensor that
    a loop carries from layer to layer, or from step to step. All boundaries of a state have one
    number format, so a result enters the next layer unchanged. In hardware the first boundary is
    the entry, from outside or from the end of the layer, and the last one the exit, or the way
    back.
    """

    name = "loop_boundary"
    targets = ("mase.loop_boundary.default",)
    role = "loop_boundary"
    casts = True
    shares_format = True

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        return [example(lambda x: target(x), (3, 5))]


define("retile(Tensor self) -> Tensor", copied)


class Retile(Layout, Tiled, Ordered):
    """Nothing moves but the cuts between beats."""

    name = "retile"
    targets = ("mase.retile.default",)
    role = "retile"

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        return tensor

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return []

    def orders(self, call: Call) -> dict[str, Order | None]:
        return {
            "data_in_0": call.operands["data_in_0"].order,
            "data_out_0": call.result.order,
        }


def _stacked(tensors: list[Tensor], loop: int = 0) -> Tensor:
    return torch.stack(tensors, 1)


define("collect(Tensor[] tensors, int loop=0) -> Tensor", _stacked)


class Collect(Moves, Ordered, Tiled):
    """The steps of loop `loop` along dimension 1; all in one format.

    Where steps run on the same hardware it is a wire, because their results follow each other.
    """

    name = "collect"
    targets = ("mase.collect.default",)
    role = "collect"
    casts = True
    shares_format = True

    def reference(self, call: Call) -> Reference:
        return lambda *codes: torch.stack(codes, 1)

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        members = [operands[f"data_in_{number}"] for number in range(len(operands))]
        return torch.stack(members, 1)

    def orders(self, call: Call) -> dict[str, Order | None]:
        return dict.fromkeys([*call.streams, *call.results])

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return [[(name, 0) for name in (*call.streams, *call.results)]]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return {(name, 1): 1 for name in (*call.streams, *call.results)}

    def hardware(self, call: Call) -> Netlist:
        net = NetlistBuilder(call.ports)
        width, lanes = call.result.quantized.encoding.width, call.result.parallelism[1]
        first, *others = call.streams
        wire, beats = net.input(first), call.operands[first].beats
        for number, name in enumerate(others, 1):
            last = number == len(others)
            sizes = number * beats, beats, (number + 1) * beats
            cell = CatCell(width, lanes, *sizes, 0, False, 1)
            wire = net.add(
                cell, "" if last else f"join_{number}", data_in_0=wire, data_in_1=net.input(name)
            )
        return net.netlist(data_out_0=wire)

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        values = tuple(example_values(2, 5, seed=number) for number in range(3))
        return [(Apply(lambda x, y, z: target([x, y, z])), values)]
