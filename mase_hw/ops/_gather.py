"""Operators that copy rows and columns of a stream: padding, cropping, nearest upsampling."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from mase_hw.geometry.beats import Cycles
from mase_hw.geometry.window import ONE_PIXEL, Axis, Window, shared
from mase_hw.ops._base import Call, Hardware, Operator, Reference
from mase_hw.ops._module import window_parameters, window_room, window_schedule, window_tables
from mase_hw.ops._scalars import SCALARS, SCALED


class GatherRows(Operator):
    """Copies elements through a buffer of a few rows; subclasses say which.

    The function is torch's own, on codes.
    """

    keeps_format: ClassVar[bool] = True
    casts: ClassVar[bool] = False
    formats: ClassVar[tuple[str, ...]] = (*SCALARS, SCALED)

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
        """Return codes -> codes."""
        return lambda codes: self.copy(call, codes)

    def hardware(self, call: Call) -> Hardware:
        """Return an instance with its tables."""
        window = self.window(call)
        parameters = {"PAD_CODE": self.fill(call), **window_parameters(window)}
        tables = window_tables(window)
        return Hardware("mase_gather_fixed", parameters, (), tables, rounds=False, moves=True)

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        """Elements stay in their lanes."""
        return [[("data_in_0", 0), ("data_out_0", 0)]]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        """One pixel at a time."""
        return ONE_PIXEL

    def window(self, call: Call) -> Window:
        """Return a window of one element."""
        tiles = self.pixel_beats(call)
        return shared(Window(*self.axes(call), tiles, tiles))

    def pixel_beats(self, call: Call) -> int:
        """Return how many beats an element of a row takes."""
        return call.operands["data_in_0"].tiles[1]

    def work_cycles(self, call: Call) -> int:
        """Every beat in, or every beat out."""
        return max(call.operands["data_in_0"].beats, call.result.beats)

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """A copy leaves 2 cycles after it entered."""
        return window_schedule(self.window(call), arrivals["data_in_0"])

    def room(self, call: Call, used: Mapping[str, Cycles], delay: int) -> dict[str, Cycles]:
        """What the buffer of the window has room for."""
        return {"data_in_0": window_room(self.window(call), call.operands["data_in_0"].beats)}

    def operations(self, call: Call) -> int:
        """None."""
        return 0
