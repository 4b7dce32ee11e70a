"""What several alike steps give, one behind the other (`torch.stack([y_0, y_1, ...], 1)`)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mase_hw.cells import Netlist, NetlistBuilder
from mase_hw.cells.cat import Cat as CatCell
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import (
    Apply,
    Attributes,
    Call,
    Example,
    Reference,
    example_values,
    torch_target,
)
from mase_hw.ops._library import define
from mase_hw.ops._tiling import Ordered, Tiled
from mase_hw.ops.movement._moves import Moves


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
        """Stack the members of the list, in their order."""
        members = [operands[f"data_in_{number}"] for number in range(len(operands))]
        return torch.stack(members, 1)

    def orders(self, call: Call) -> dict[str, Order | None]:
        return dict.fromkeys([*call.streams, *call.results])

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return [[(name, 0) for name in (*call.streams, *call.results)]]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return {(name, 1): 1 for name in (*call.streams, *call.results)}

    def hardware(self, call: Call) -> Netlist:
        """Return cells that put one step behind another; a wire of one."""
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
