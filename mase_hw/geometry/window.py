"""A window that slides over an image: which pixels it shows, its buffer, and its cycles.

An image streams with its channels last, a pixel as `tiles` beats. Along each axis a table says,
for every position of the output and every element of the window, which row or column of the image
it shows, or that it lies outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mase_hw.geometry.beats import Cycles, one_per_cycle
from mase_hw.geometry.tensor import TensorSpec

OUTSIDE = -1


@dataclass(frozen=True)
class Axis:
    """One axis of a window.

    Attributes:
        size: rows or columns of the image.
        places: for each position, for each element of the window, the row or column, or -1.
    """

    size: int
    places: tuple[tuple[int, ...], ...]

    @classmethod
    @cache
    def sliding(
        cls, size: int, kernel: int, stride: int, dilation: int, before: int, positions: int
    ) -> Axis:
        """Return a window of `kernel` elements `dilation` apart that moves by `stride`.

        Args:
            size: elements of the image.
            kernel: elements of the window.
            stride: step from one position to the next.
            dilation: step from one element to the next.
            before: padding before the image.
            positions: positions of the window.
        """
        return cls.of(
            size,
            [
                [position * stride - before + element * dilation for element in range(kernel)]
                for position in range(positions)
            ],
        )

    @classmethod
    def of(cls, size: int, places: Sequence[Sequence[int]]) -> Axis:
        """Return an axis from indices, those outside `0..size-1` taken for padding."""
        return cls(
            size,
            tuple(tuple(x if 0 <= x < size else OUTSIDE for x in window) for window in places),
        )

    @property
    def positions(self) -> int:
        """Positions of the window."""
        return len(self.places)

    @property
    def kernel(self) -> int:
        """Elements of the window."""
        return len(self.places[0])

    @cached_property
    def indices(self) -> npt.NDArray[np.int64]:
        """The table as an array `[positions, kernel]`."""
        return np.array(self.places, dtype=np.int64).reshape(self.positions, self.kernel)

    def first(self, default: int) -> Cycles:
        """Return the first index that each position reads, or `default`."""
        inside = np.where(self.indices == OUTSIDE, default, self.indices)
        result: Cycles = inside.min(axis=1)
        return result


@dataclass(frozen=True)
class Window:
    """A window over rows and columns, with its channel tiles.

    Attributes:
        rows: the vertical axis; of size 1 for a signal.
        columns: the horizontal axis.
        tiles: beats of a pixel.
        block_tiles: beats of a pixel that one block shows.
        block_repeats: blocks that show the same tiles.
        elements: how many of a block leave at a time; the last beat of a block may be padded.
    """

    rows: Axis
    columns: Axis
    tiles: int
    block_tiles: int
    block_repeats: int = 1
    elements: int = 1

    @property
    def inputs(self) -> int:
        """Beats of an image."""
        return self.rows.size * self.columns.size * self.tiles

    @property
    def positions(self) -> int:
        """Positions of the window."""
        return self.rows.positions * self.columns.positions

    @property
    def block_elements(self) -> int:
        """Elements of a block: pixels of the window times tiles."""
        return self.rows.kernel * self.columns.kernel * self.block_tiles

    @property
    def terms(self) -> int:
        """Beats of a block."""
        return -(-self.block_elements // self.elements)

    @property
    def blocks(self) -> int:
        """Blocks of a position."""
        return self.tiles // self.block_tiles * self.block_repeats

    @property
    def beats(self) -> int:
        """Beats that leave for an image."""
        return self.positions * self.blocks * self.terms

    @property
    def work_cycles(self) -> int:
        """Cycles that an image occupies the window."""
        return max(self.beats, self.inputs)

    @cached_property
    def needs(self) -> Cycles:
        """The last beat of the image that each beat out needs, `[positions, beats]`."""
        result: Cycles = np.maximum(self.shown, 0).max(axis=-1)
        return result

    def needs_of(self, beats: Cycles) -> Cycles:
        """Return the last beat of the image that some beats out, or any before them, need."""
        position, beat = np.divmod(beats, self.blocks * self.terms)
        block, term = np.divmod(beat, self.terms)
        element = term[:, None] * self.elements + np.arange(self.elements)
        inside = element < self.block_elements
        pixel, tile = np.divmod(np.where(inside, element, 0), self.block_tiles)
        row, column = np.divmod(position, self.columns.positions)
        rows = self.rows.indices[row[:, None], pixel // self.columns.kernel]
        columns = self.columns.indices[column[:, None], pixel % self.columns.kernel]
        first = block[:, None] // self.block_repeats * self.block_tiles
        places = (rows * self.columns.size + columns) * self.tiles + first + tile
        shown = inside & (rows != OUTSIDE) & (columns != OUTSIDE)
        before = np.maximum.accumulate(np.append(0, self.last[:-1]))
        needs: Cycles = np.maximum(np.where(shown, places, 0).max(axis=1), before[position])
        return needs

    @cached_property
    def last(self) -> Cycles:
        """The last beat of the image that each position needs, 0 where it shows padding alone."""
        rows, columns = self.rows.indices.max(axis=1), self.columns.indices.max(axis=1)
        places = (rows[:, None] * self.columns.size + columns + 1) * self.tiles - 1
        shown = (rows[:, None] != OUTSIDE) & (columns != OUTSIDE)
        last: Cycles = np.where(shown, places, 0).reshape(-1)
        return last

    @property
    def shown(self) -> Cycles:
        """The beat of the image in each element, -1 for padding, `[positions, beats, elements]`."""
        row_beats = self.columns.size * self.tiles
        rows = self.rows.indices[:, None, None, None, :, None, None]
        columns = self.columns.indices[None, :, None, None, None, :, None]
        starts = np.arange(0, self.tiles, self.block_tiles)[:, None, None, None, None]
        tiles = np.arange(self.block_tiles)
        places = rows * row_beats + columns * self.tiles + starts + tiles
        outside = (rows == OUTSIDE) | (columns == OUTSIDE)
        places = np.where(outside, OUTSIDE, places)
        blocks = places.reshape(self.positions, -1, 1, self.block_elements)
        padding = self.terms * self.elements - self.block_elements
        around = ((0, 0), (0, 0), (0, 0), (0, padding))
        blocks = np.pad(blocks, around, constant_values=OUTSIDE)
        beats = blocks.reshape(*blocks.shape[:3], self.terms, self.elements)
        shown = beats.repeat(self.block_repeats, axis=2)
        result: Cycles = shown.reshape(self.positions, -1, self.elements)
        return result

    @cached_property
    def free(self) -> Cycles:
        """The first beat of the image that each position, or one after it, needs."""
        current = self._row_current[:, None] + self._column_current[None, :]
        free: Cycles = np.minimum(np.minimum(current, self.inputs), self._row_later[:, None])
        return free.reshape(-1)

    @cached_property
    def _row_current(self) -> Cycles:
        return self.rows.first(self.rows.size) * self.columns.size * self.tiles

    @cached_property
    def _column_current(self) -> Cycles:
        first = self.columns.first(self.columns.size)
        later: Cycles = np.minimum.accumulate(first[::-1])[::-1]
        return later * self.tiles

    @cached_property
    def _row_later(self) -> Cycles:
        """The first beat that later rows of positions need."""
        first = np.append(self._row_current[1:], self.inputs) + self._column_current[0]
        result: Cycles = np.minimum.accumulate(np.minimum(first, self.inputs)[::-1])[::-1]
        return result

    @cached_property
    def depth(self) -> int:
        """Beats of the buffer: what a position needs, and what the positions of the next row do.

        A window one row high that skips none looks ahead by its width instead. The input then
        never waits for the window longer than the window waits for it. One that is faster than
        its input gets as many rows as keep the input from waiting at all, one that is as fast as
        many as keep its interval.
        """
        one_row = self.rows.kernel == 1 and self.rows.positions == self.rows.size
        ahead = self.columns.kernel if one_row else self.columns.positions
        last = self.last
        last = np.concatenate([last, last + self.inputs, last + 2 * self.inputs])
        count = self.positions
        ahead = min(ahead, count)
        windows = np.lib.stride_tricks.sliding_window_view(last, ahead + 1)[:count]
        depth = max(self.tiles, int((windows.max(axis=1) - self.free).max()) + 1)
        while self._holds_up(depth):
            depth += self.columns.size * self.tiles
        return depth

    def _holds_up(self, depth: int) -> bool:
        """True if an input that never pauses waits for a window that is as fast."""
        if self.beats > self.inputs:
            return False
        images = 5
        steady = np.arange(images * self.inputs)
        entered, read = self.settled(steady, depth)
        if self.beats < self.inputs:
            return not np.array_equal(entered, steady)
        ends = read.reshape(images, -1)[:, -1]
        return bool(ends[-1] - ends[-2] > self.beats)

    @property
    def row_table(self) -> tuple[int, tuple[int, ...]]:
        """Bits of a word, and for each row of positions the word that the module reads."""
        row_beats, bits = self.columns.size * self.tiles, self.offset_bits
        words = (
            self._word(places, row_beats, (int(current), int(later)))
            for places, current, later in zip(
                self.rows.places, self._row_current, self._row_later, strict=True
            )
        )
        place = 1 + bits + self._address_bits
        return self.rows.kernel * place + 2 * bits, tuple(words)

    @property
    def column_table(self) -> tuple[int, tuple[int, ...]]:
        """Bits of a word, and for each column of positions the word that the module reads."""
        bits = self.offset_bits
        words = (
            self._word(places, self.tiles, (int(current),))
            for places, current in zip(self.columns.places, self._column_current, strict=True)
        )
        return self.columns.kernel * (1 + bits + self._address_bits) + bits, tuple(words)

    @property
    def offset_bits(self) -> int:
        """Bits of a beat's number in an image."""
        return self.inputs.bit_length()

    @property
    def _address_bits(self) -> int:
        return max(1, (self.depth - 1).bit_length())

    def _word(self, places: Sequence[int], step: int, bounds: Sequence[int]) -> int:
        word, shift = 0, 0
        fields: list[tuple[int, int]] = []
        for place in places:
            offset = 0 if place == OUTSIDE else place * step
            fields.append((int(place != OUTSIDE), 1))
            fields.append((offset, self.offset_bits))
            fields.append((offset % self.depth, self._address_bits))
        fields += [(bound, self.offset_bits) for bound in bounds]
        for value, width in fields:
            word |= value << shift
            shift += width
        return word

    def settled(self, offered: Cycles, depth: int, start: int = 0) -> tuple[Cycles, Cycles]:
        """Return when each beat enters a buffer of `depth`, and when each that leaves is read.

        None is read before the cycle `start`.

        Beats enter when there is room, which depends on what has left, which depends on what has
        entered: the two are settled in turn.
        """
        images = offered.size // self.inputs
        starts = np.arange(images)[:, None] * self.inputs
        needs = (self.needs.reshape(1, -1) + starts).reshape(-1)
        free = (self.free[None, :] + starts).reshape(-1)
        limits = np.searchsorted(free, np.arange(offered.size) - depth, side="right")
        accepted = one_per_cycle(offered)
        while True:
            taken = one_per_cycle(np.maximum(accepted[needs] + 1, start))
            # Position p is reached the cycle after the last beat of p - 1 left.
            reached = np.append(0, taken.reshape(free.size, -1)[:, -1] + 1)
            settled = one_per_cycle(np.maximum(offered, reached[limits]))
            if np.array_equal(settled, accepted):
                return accepted, taken
            accepted = settled


@lru_cache(maxsize=64)
def shared(window: Window) -> Window:
    """Return the first window of this value: what is known of it serves all layers alike."""
    return window


class Gather:
    """Collects the windows of images: `[n, channels, ...]` to `[n, channels, window, positions]`.

    Args:
        rows: the vertical axis.
        columns: the horizontal axis.
        fill: what pixels outside are.
    """

    def __init__(self, rows: Axis, columns: Axis, fill: int = 0) -> None:
        vertical, horizontal = torch.from_numpy(rows.indices), torch.from_numpy(columns.indices)
        y, x = vertical[:, None, :, None], horizontal[None, :, None, :]
        # A place outside reads one more pixel.
        places = torch.where((y == OUTSIDE) | (x == OUTSIDE), rows.size * columns.size, 0)
        places = torch.where(places == 0, y * columns.size + x, places)
        self._places = places.permute(2, 3, 0, 1).reshape(rows.kernel * columns.kernel, -1)
        self._pixels = rows.size * columns.size
        self._fill = fill

    def __call__(self, images: Tensor) -> Tensor:
        flat = images.reshape(*images.shape[:2], self._pixels)
        return torch.nn.functional.pad(flat, (0, 1), value=self._fill)[..., self._places]


def image_size(spec: TensorSpec) -> tuple[int, int, int]:
    """Return channels, height and width of `[1, channels, (height,) width]`."""
    channels, *space = spec.shape[1:]
    return (channels, 1, space[0]) if len(space) == 1 else (channels, space[0], space[1])


def pair(value: Any, dimensions: int, neutral: int) -> tuple[int, int]:
    """Return (vertical, horizontal) from what torch takes: a number or one per dimension."""
    values = [value] if isinstance(value, int) else list(value)
    if dimensions == 1:
        return neutral, int(values[0])
    return int(values[0]), int(values[-1])


ONE_PIXEL = {("data_in_0", 1): 1, ("data_out_0", 1): 1}
