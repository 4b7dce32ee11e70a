"""A window that slides over an image which streams with its channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mase_hw.cells._base import Cell, Image, Origin, Origins, Port
from mase_hw.cells._components import (
    Adder,
    Compare,
    Components,
    Counter,
    Gates,
    Memory,
    Mux,
    Offset,
    Register,
    Table,
)
from mase_hw.cells._motion import Arrivals, Motion, Movement, Steps, met, stored
from mase_hw.cells._pipeline import (
    counter,
    credits,
    index_bits,
    result_queue,
    stream_pipeline,
)
from mase_hw.formats import StreamField
from mase_hw.geometry.beats import Cycles
from mase_hw.geometry.window import OUTSIDE, Axis, Window, shared

# From when a beat is read to when it is offered.
READ = Steps(5)


def walk_stages(elements: int) -> int:
    """Return the cycles until `mase_window_walk` knows where the elements of a beat lie."""
    return max(7, 5 + (elements - 1).bit_length())


@dataclass(frozen=True)
class Sliding(Motion):
    """Beats enter while there is room in the buffer, and leave as the window needs them."""

    window: Window

    @property
    def start(self) -> int:
        """The first cycle after reset in which a beat is read: its place takes so long to find."""
        return walk_stages(self.window.elements) + 4

    def offered(self, arrivals: Arrivals) -> Cycles:
        """A beat is read the cycle after the last that it needs entered."""
        read: Cycles = self._settled(met(arrivals))[1]
        return read + READ.latency

    def consumed(self, arrivals: Arrivals) -> dict[str, Cycles]:
        return {name: self._settled(cycles)[0] for name, cycles in arrivals.items()}

    def needs(self, port: str, beats: int) -> Cycles:
        return np.maximum.accumulate(self._of_images(self.window.needs, beats))

    def room(self, port: str, beats: int) -> Cycles:
        """What the position that a beat must wait for has sent.

        The last beats of the position before may be on their way.
        """
        return self.room_of(port, beats, np.arange(beats))

    @property
    def lag(self) -> int:
        """A beat is read the cycle after the last that it needs entered."""
        return READ.latency + 1

    def results(self, beats: int, port: str = "") -> int:
        return beats // self.window.inputs * self.window.beats

    def needs_of(self, port: str, beats: int, results: Cycles) -> Cycles:
        image, beat = np.divmod(results, self.window.beats)
        return image * self.window.inputs + self.window.needs_of(beat)

    def room_of(self, port: str, beats: int, places: Cycles) -> Cycles:
        """What the position that a beat must wait for has sent."""
        return self._shown(places) - READ.depth

    def under_pressure(self, arrivals: Arrivals, departures: Cycles) -> Movement:
        """There is room for a beat once the position that it must wait for was read."""
        beats = met(arrivals).size
        needs = self._of_images(self.window.needs, beats)
        room = self._shown(np.arange(beats))
        return stored(arrivals, departures, needs, room, READ.latency, self.start)

    def _settled(self, offered: Cycles) -> tuple[Cycles, Cycles]:
        """Return when each beat enters, and when each that leaves is read."""
        return self.window.settled(offered, self.window.depth, self.start)

    def _shown(self, places: Cycles) -> Cycles:
        """Return the result that must have been read before beats; negative for none."""
        window = self.window
        image, limit = np.divmod(places - window.depth, window.inputs)
        position = image * window.positions + np.searchsorted(window.free, limit, side="right")
        shown: Cycles = position * window.blocks * window.terms - 1
        return shown

    def _of_images(self, beats_of_one: Cycles, beats: int) -> Cycles:
        """Extend the beats of one image to every image of an inference."""
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
    def latencies(self) -> Mapping[str, int]:
        return {"WALK_STAGES": walk_stages(self._shown.elements)}

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
            "FIRST_NEED": int(window.needs_of(np.zeros(1, dtype=np.int64))[0]),
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

    @property
    def components(self) -> Components:
        """The walk of the window, the buffer with its ports, padding, and a pipeline."""
        given = self.parameters
        lanes, width = given["LANES"], given["LANE_WIDTH"]
        elements, depth = given["ELEMENTS"], given["DEPTH"]
        address = index_bits(depth)
        count = (2 * given["INPUTS"] + depth).bit_length() + 1
        control = Components.of(
            (Adder(count, gated=True), 2),
            Register(2 * count + 1),
            Counter(address),
            Gates(3),
            Register(address + lanes * width),
            Register(elements, 3),
        )
        copies = [min(8, elements - first) for first in range(0, elements, 8)]
        buffers = Components.of(
            *(Memory(depth, lanes * width, ports, stages=1) for ports in copies)
        )
        element = Components.of(Register(address + lanes * width), Gates(lanes * width))
        out = elements * lanes * (width + self.mark)
        return self._walk(given) + control + buffers + element * elements + stream_pipeline(out, 3)

    def _walk(self, given: Mapping[str, int]) -> Components:
        """Return the components of `mase_window_walk`, which has the parameters of this module."""
        tiles, elements, depth = given["TILES"], given["ELEMENTS"], given["DEPTH"]
        rows, columns = given["KERNEL_ROWS"], given["KERNEL_COLUMNS"]
        block = given["BLOCK_TILES"]
        offset, address = given["INPUTS"].bit_length(), index_bits(depth)
        tile, step = index_bits(tiles) * (tiles > 1), given["INPUTS"].bit_length() + 2
        levels = (elements - 1).bit_length()
        stages = walk_stages(elements)
        beats = -(-rows * columns * block // elements)
        counters = (
            counter(beats)
            + counter(given["BLOCK_REPEATS"])
            + counter(tiles // block)
            + counter(given["COLUMNS"])
            + counter(given["ROWS"])
        )
        images = {name: image for name, (_, image) in self.images.items()}
        row_words, column_words = images["ROW_FILE"], images["COLUMN_FILE"]
        rest = row_words.width_bits - offset
        low = Image(rest, lambda: [word % (1 << rest) for word in row_words.words])
        # What later rows read first passes a register more, the third in a row.
        later = Image(offset, lambda: [word >> rest for word in row_words.words])
        tables = Components.of(
            Table(given["ROWS"], rest, low, stages=2),
            Table(given["ROWS"], offset, later, stages=3),
            Table(given["COLUMNS"], column_words.width_bits, column_words, stages=2),
            Register(tile, 2),
        )
        shared = Components.of(
            Register(address),
            Offset(address + 1, 2),
            Mux(2, address),
            Offset(address, 2),
            Register(address, 3),
            (Register(1), stages),
            Register(1, stages),
            Adder(offset + 1),
            Register(offset + 1),
            Compare(offset + 1),
            Mux(2, offset),
            Register(offset, stages - 3),
            Gates(10, levels=3),
            (Adder(step), 4),
            Register(4 * step + 2),
            Register((address + 1) * elements, 2),
        )
        modulo = Components.of(
            Adder(address), Register(2 * address + 1), Offset(address + 2, 2), Mux(2, address)
        )
        row, column, moved = moves = self._moves(given)
        # A single row of positions of a single row of pixels is known.
        has_rows = given["ROWS"] > 1 or rows > 1
        element = modulo * 3 + self._counter(given, moves)
        element += Components.of(
            Register(index_bits(rows) * row + index_bits(columns) * column + tile * moved, 2),
            Register(int(row), 2),
            Mux(rows if row else 1, address + offset + 1),
            Mux(columns if column else 1, address + offset + 1),
            Register((address + offset) * (1 + has_rows) + tile),
            Register(2),
            Register(1, stages - 4),
            Adder(offset),
            Register(offset + tile + offset),
            Adder(offset, gated=True),
            Register(address, stages - 7),
        )
        most = Components.of((Compare(offset), elements - 1), (Mux(2, offset), elements - 1))
        inputs = elements
        while inputs > 1:
            inputs = -(-inputs // 2)
            most += Components.of(Register(offset * inputs))
        most += Components.of(Register(offset, stages - 5 - levels))
        beat = elements * (address + 1) + 2 * step
        ends = credits(stages + 5) + result_queue(beat, stages + 5)
        return counters + tables + shared + element * elements + most + ends

    @property
    def origins(self) -> Origins:
        """The pixels of the window, lane by lane, or of several signals all at once."""
        window, fields = self.window, self.port.fields
        lanes = fields[0].lanes if len(fields) == 1 else 1
        bits = self.port.width_bits // lanes
        padding, shown = self.pad_code % (1 << bits), int(self.mark) << bits
        found = []
        for image in range(self.port.beats // window.inputs):
            for beat in window.shown.reshape(-1, window.elements).tolist():
                row: list[Origin | int] = []
                for place in beat:
                    for lane in range(lanes):
                        first = image * window.inputs + place
                        outside = place == OUTSIDE
                        row.append(padding if outside else Origin("data_in", first, lane, shown))
                found.append(row)
        return found

    @staticmethod
    def _moves(given: Mapping[str, int]) -> tuple[bool, bool, bool]:
        """True if an element of a beat changes its row, column and tile of the window."""
        step, tiles, columns = given["ELEMENTS"], given["BLOCK_TILES"], given["KERNEL_COLUMNS"]
        rows = given["KERNEL_ROWS"]
        if rows * columns * tiles <= step:
            return False, False, False
        tile = step % tiles > 0
        column = columns > 1 and (tile or step // tiles % columns > 0)
        row = rows > 1 and (column or step // tiles // columns > 0)
        return row, column, tile

    @staticmethod
    def _counter(given: Mapping[str, int], moves: Sequence[bool]) -> Components:
        """Return the components of `mase_window_element`."""
        sizes = given["KERNEL_ROWS"], given["KERNEL_COLUMNS"], given["BLOCK_TILES"]
        components = Components.of()
        for size, moved in zip(sizes, moves, strict=True):
            bits = (2 * size - 1).bit_length() * moved
            components += Components.of(Register(bits), (Gates(bits), 2))
        return components

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """A window with padding and a stride; blocks sent twice, marked; two images."""
        rows = Axis.sliding(4, 3, 1, 1, 1, 4)
        columns = Axis.sliding(5, 2, 2, 1, 0, 2)
        plain = cls(Window(rows, columns, 2, 2), Port((StreamField("", 3, 4),), 40))
        blocks = replace(plain, window=Window(rows, columns, 2, 1, 2, 3), pad_code=-7, mark=True)
        wide = replace(plain, window=Window(rows, columns, 2, 2, elements=6))
        return (plain, blocks, wide, replace(plain, port=replace(plain.port, beats=80)))

    @classmethod
    def proofs(cls) -> Sequence[Cell]:
        """Small images: padding, a stride, two elements at a time."""
        signal = Axis.sliding(1, 1, 1, 1, 0, 1)
        padded = Axis.sliding(3, 2, 1, 1, 1, 3)
        port = Port((StreamField("", 1, 1),), 3)
        line = cls(Window(signal, padded, 1, 1), port, pad_code=1)
        image = Axis.sliding(2, 2, 1, 1, 0, 1)
        return (
            line,
            replace(line, window=Window(signal, padded, 1, 1, elements=2), mark=True),
            cls(Window(image, image, 1, 1), replace(port, beats=4)),
        )
