"""Operators that copy rows and columns of a stream: padding, cropping, nearest upsampling."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from mase_hw.cells import Netlist
from mase_hw.cells.sliding_window import SlidingWindow
from mase_hw.geometry.window import ONE_PIXEL, Axis, Window
from mase_hw.ops._base import Call, Reference
from mase_hw.ops._tiling import Tiled
from mase_hw.ops.movement._moves import Moves


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
