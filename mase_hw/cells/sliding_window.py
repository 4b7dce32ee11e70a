"""A window that slides over an image which streams with its channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mase_hw.cells._base import Cell, Image, Port
from mase_hw.cells._motion import Arrivals, Motion, Moves, Steps, met, stored
from mase_hw.formats import StreamField
from mase_hw.geometry.beats import Cycles
from mase_hw.geometry.window import Axis, Window, shared

# From when a beat is read to when it is offered.
READ = Steps(5)


@dataclass(frozen=True)
class Sliding(Motion):
    """Beats enter while there is room in the buffer, and leave as the window needs them."""

    window: Window

    @property
    def start(self) -> int:
        """The first cycle after reset in which a beat is read: its place takes so long to find."""
        return max(7, 5 + (self.window.elements - 1).bit_length()) + 4

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A beat is read the cycle after the last that it needs entered."""
        read: Cycles = self._settled(met(arrivals))[1]
        return read + READ.latency

    def taken(self, arrivals: Arrivals) -> dict[str, Cycles]:
        """When there is room."""
        return {name: self._settled(cycles)[0] for name, cycles in arrivals.items()}

    def needs(self, port: str, beats: int) -> Cycles:
        """The last of its elements, and of those before."""
        return np.maximum.accumulate(self._of_images(self.window.needs, beats))

    def room(self, port: str, beats: int) -> Cycles:
        """What the position that a beat must wait for has sent.

        The last beats of the position before may be on their way.
        """
        return self._shown(beats) - READ.depth

    def moves(self, arrivals: Arrivals, gone: Cycles) -> Moves:
        """There is room for a beat once the position that it must wait for was read."""
        beats = met(arrivals).size
        needs = self._of_images(self.window.needs, beats)
        return stored(arrivals, gone, needs, self._shown(beats), READ.latency, self.start)

    def _settled(self, offered: Cycles) -> tuple[Cycles, Cycles]:
        """Return when each beat enters, and when each that leaves is read."""
        return self.window.settled(offered, self.window.depth, self.start)

    def _shown(self, beats: int) -> Cycles:
        """Return the result that must have been read before each beat; negative for none."""
        window = self.window
        free = self._of_images(window.free, beats)
        position = np.searchsorted(free, np.arange(beats) - window.depth, side="right")
        shown: Cycles = position * window.blocks * window.terms - 1
        return shown

    def _of_images(self, beats_of_one: Cycles, beats: int) -> Cycles:
        """Return what is known of the beats of one image for each image of an inference."""
        starts = np.arange(0, beats, self.window.inputs)[:, None]
        return (starts + beats_of_one.reshape(-1)).reshape(-1)


@dataclass(frozen=True)
class SlidingWindow(Cell):
    """A buffer of a few rows.

    Attributes:
        window: which pixels are shown in which order.
        port: the image, some channels of a pixel a beat; several of them in an inference.
        mark: whether a bit above each element says that it lies in the image.
        pad_code: the code of what lies outside, its lowest bits at least.
    """

    window: Window
    port: Port
    mark: bool = False
    pad_code: int = 0

    @cached_property
    def _shown(self) -> Window:
        """The window; what is costly to know of it serves all equal ones."""
        return shared(self.window)

    @cached_property
    def inputs(self) -> Mapping[str, Port]:
        """The image."""
        return {"data_in": Port(self.port.fields, self.port.beats, self.port.optional, True)}

    @cached_property
    def outputs(self) -> Mapping[str, Port]:
        """The elements of the window, some of them a beat; with all signals of a beat, one."""
        first, elements = self.port.fields[0], self.window.elements
        fields = self.port.fields
        if elements > 1 or self.mark:
            width = first.width_bits + self.mark
            fields = (StreamField(first.suffix, elements * first.lanes, width),)
        beats = self.port.beats // self.window.inputs * self.window.beats
        return {"data_out": Port(fields, beats, self.port.optional, True)}

    @property
    def parameters(self) -> Mapping[str, int]:
        """The sizes of image, window and buffer."""
        window, fields = self._shown, self.port.fields
        single = len(fields) == 1
        return {
            "LANES": fields[0].lanes if single else 1,
            "LANE_WIDTH": fields[0].width_bits if single else self.port.width_bits,
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
            "FIRST_NEED": int(window.needs[0, 0]),
            "FIRST_FREE": int(window.free[0]),
            "MARK": self.mark,
            # A number of 32 bits with a sign, as the module has it.
            "PAD_CODE": (self.pad_code + (1 << 31)) % (1 << 32) - (1 << 31),
        }

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        """Where the elements of each row and each column of positions lie."""
        window = self._shown
        rows, columns = window.row_table, window.column_table
        return {
            "ROW_FILE": ("rows", Image(rows[0], lambda: rows[1])),
            "COLUMN_FILE": ("columns", Image(columns[0], lambda: columns[1])),
        }

    @property
    def motion(self) -> Motion:
        """A beat a cycle where the window moves no faster than its input."""
        return Sliding(self._shown)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """A window with padding and a stride; blocks sent twice, marked; two images."""
        rows = Axis.sliding(4, 3, 1, 1, 1, 4)
        columns = Axis.sliding(5, 2, 2, 1, 0, 2)
        plain = cls(Window(rows, columns, 2, 2), Port((StreamField("", 3, 4),), 40))
        blocks = replace(plain, window=Window(rows, columns, 2, 1, 2, 3), pad_code=-7, mark=True)
        wide = replace(plain, window=Window(rows, columns, 2, 2, elements=6))
        return (plain, blocks, wide, replace(plain, port=replace(plain.port, beats=80)))
