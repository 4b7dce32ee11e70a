"""Operators that move elements and compute nothing.

They are a wire where the stream's order stays, and otherwise a double-buffered banked memory that
carries one beat per cycle.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from mase_hw.cells import Netlist, NetlistBuilder
from mase_hw.cells.reorder import Reorder
from mase_hw.geometry.reorder import Reordering
from mase_hw.ops._base import Call, Reference
from mase_hw.ops.movement._moves import Moves


class Layout(Moves):
    """Moves every element of its operand to another place.

    Subclasses give the move as a torch function on one tensor.
    """

    @abstractmethod
    def move(self, call: Call, tensor: Tensor) -> Tensor:
        """Return the moved elements of `[inferences, ...]`, or of one inference."""

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if call.operands["data_in_0"].elements != call.result.elements:
            problems.append("elements of different inferences are mixed; keep the batch dimension")
        return problems

    def reference(self, call: Call) -> Reference:
        return lambda codes: self.move(call, codes)

    def hardware(self, call: Call) -> Netlist:
        data = call.operands["data_in_0"]
        index = torch.arange(data.elements).reshape(data.shape)
        moved = tuple(self.move(call, index).flatten().tolist())
        moves = Reordering.of(data, call.result, moved)
        net = NetlistBuilder(call.ports)
        wire = net.input("data_in_0")
        if not moves.is_wire:
            part, count = moves.parts
            reorder = Reorder(data.quantized.encoding.width, part, tensors=count)
            wire = net.add(reorder, data_in_0=wire)
        return net.netlist(data_out_0=wire)
