"""Operators that move or copy elements and compute nothing.

They are a wire where the stream's order stays, and otherwise a double-buffered banked memory that
carries one beat per cycle.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from mase_hw.cells import Netlist, NetlistBuilder
from mase_hw.cells.reorder import Reorder
from mase_hw.cells.sliding_window import SlidingWindow
from mase_hw.formats import SCALARS, SCALED, Family
from mase_hw.geometry.reorder import Reordering
from mase_hw.geometry.window import ONE_PIXEL, Axis, Window
from mase_hw.ops._base import Call, Operator, Reference
from mase_hw.ops._interfaces import Numeric, Tiled


class Moves(Operator, Numeric):
    """Codes of any format whose elements stand by themselves, as they are."""

    keeps_format = True
    casts = False
    families = SCALARS | SCALED

    def operations(self, call: Call) -> int:
        return 0


class Wire(Moves):
    """The identity, which leaves the graph where it is one: codes of any format, as they are."""

    families = frozenset(Family)

    def reference(self, call: Call) -> Reference:
        return lambda codes: codes

    def hardware(self, call: Call) -> Netlist:
        return Netlist.wire(call.ports)

    def block_axis(self, name: str) -> int | None:
        return None

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if call.operands["data_in_0"].format != call.result.format:
            problems.append(
                "its result has another format than its operand: configure one for both"
            )
        return problems


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


class GatherRows(Moves, Tiled):
    """Copies elements through a buffer of a few rows; subclasses say which.

    The function is torch's own, on codes.
    """

    @abstractmethod
    def axes(self, call: Call) -> tuple[Axis, Axis]:
        """Return which rows and columns of the stream each row and column of the result shows."""

    @abstractmethod
    def copy(self, call: Call, codes: Tensor) -> Tensor:
        """Return the result's codes."""

    def fill(self, call: Call) -> int:
        """Return the code of what lies outside."""
        return 0

    def reference(self, call: Call) -> Reference:
        return lambda codes: self.copy(call, codes)

    def hardware(self, call: Call) -> Netlist:
        tiles = self.pixel_beats(call)
        window = Window(*self.axes(call), tiles, tiles)
        cell = SlidingWindow(window, call.ports["data_in_0"], pad_code=self.fill(call))
        return Netlist.single(call.ports, cell)

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return [[("data_in_0", 0), ("data_out_0", 0)]]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return ONE_PIXEL

    def pixel_beats(self, call: Call) -> int:
        """Return how many beats an element of a row takes."""
        return call.operands["data_in_0"].tiles[1]
