"""A window that slides over an image which streams with its channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mase_hw.cells._base import Cell, Image, Port, fact
from mase_hw.cells._motion import Arrivals, Motion, met
from mase_hw.formats import StreamField
from mase_hw.geometry.beats import Cycles
from mase_hw.geometry.window import Axis, Window


@dataclass(frozen=True)
class Sliding(Motion):
    """Beats enter while there is room in the buffer, and leave as the window needs them."""

    window: Window

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A beat is offered 2 cycles after the last that it needs entered."""
        taken: Cycles = self.window.settled(met(arrivals), self.window.depth)[1] + 1
        return taken

    def taken(self, arrivals: Arrivals) -> dict[str, Cycles]:
        """When there is room."""
        return {
            name: self.window.settled(cycles, self.window.depth)[0]
            for name, cycles in arrivals.items()
        }

    def needs(self, port: str, beats: int) -> Cycles:
        """The last of its elements, and of those before."""
        return np.maximum.accumulate(self._of_images(self.window.needs, beats))

    def room(self, port: str, beats: int) -> Cycles:
        """What the position that a beat must wait for has sent.

        The last beat of the position before is read once the beat before that has moved on.
        """
        window = self.window
        free = self._of_images(window.free, beats)
        position = np.searchsorted(free, np.arange(beats) - window.depth, side="right")
        room: Cycles = position * window.blocks * window.terms - 2
        return room

    def _of_images(self, beats_of_one: Cycles, beats: int) -> Cycles:
        """Return what is known of the beats of one image for each image of an inference."""
        starts = np.arange(0, beats, self.window.inputs)[:, None]
        return (starts + beats_of_one.reshape(-1)).reshape(-1)


@dataclass(frozen=True)
class SlidingWindow(Cell):
    """A buffer of a few rows.

    Attributes:
        window: which pixels are shown in which order.
        lanes: elements of a beat.
        lane_width: bits of an element, with all that belongs to it.
        pad_code: the code of what lies outside, its lowest bits at least.
        count: images of one inference.
    """

    window: Window
    lanes: int
    lane_width: int
    pad_code: int = 0
    count: int = fact(1)

    @property
    def inputs(self) -> Mapping[str, Port]:
        """The image, `lanes` channels of a pixel a beat."""
        return {"data_in": self._port(1, self.window.inputs)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """The elements of the window, some of them a beat."""
        return {"data_out": self._port(self.window.elements, self.window.beats)}

    def _port(self, elements: int, beats: int) -> Port:
        payload = (StreamField("", elements * self.lanes, self.lane_width),)
        return Port(payload, self.count * beats, packed=True)

    @property
    def parameters(self) -> Mapping[str, int]:
        """The sizes of image, window and buffer."""
        window = self.window
        return {
            "LANES": self.lanes,
            "LANE_WIDTH": self.lane_width,
            "TILES": window.tiles,
            "INPUTS": window.inputs,
            "ROWS": window.rows.positions,
            "COLUMNS": window.columns.positions,
            "KERNEL_ROWS": window.rows.kernel,
            "KERNEL_COLUMNS": window.columns.kernel,
            "BLOCK_TILES": window.block_tiles,
            "BLOCK_REPEATS": window.block_repeats,
            "ELEMENTS": window.elements,
            "DEPTH": window.depth,
            # A number of 32 bits with a sign, as the module has it.
            "PAD_CODE": (self.pad_code + (1 << 31)) % (1 << 32) - (1 << 31),
        }

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        """Where the elements of each row and each column of positions lie."""
        window = self.window
        rows, columns = window.row_table, window.column_table
        return {
            "ROW_FILE": ("rows", Image(rows[0], lambda: rows[1])),
            "COLUMN_FILE": ("columns", Image(columns[0], lambda: columns[1])),
        }

    @property
    def motion(self) -> Motion:
        """A beat a cycle where the window moves no faster than its input."""
        return Sliding(self.window)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """A window with padding, a stride, blocks of channels sent twice; two images."""
        rows = Axis.sliding(4, 3, 1, 1, 1, 4)
        columns = Axis.sliding(5, 2, 2, 1, 0, 2)
        plain = cls(Window(rows, columns, 2, 2), 3, 4)
        blocks = Window(rows, columns, 2, 1, 2, 3)
        return (plain, replace(plain, window=blocks, pad_code=-7), replace(plain, count=2))
