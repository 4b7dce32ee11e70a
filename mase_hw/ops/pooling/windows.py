"""Windows of an image that are listed, row by row and column by column, and not described.

Pools with indices are written with them, of whatever dimension, and pools whose windows were drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Image, Netlist, NetlistBuilder, Operation, RomSource
from mase_hw.cells.argmax import Argmax
from mase_hw.cells.binary_fixed import BinaryFixed
from mase_hw.cells.cast_fixed import CastFixed
from mase_hw.cells.sliding_window import SlidingWindow
from mase_hw.cells.unary_table import UnaryTable
from mase_hw.formats import Encoding, Format, make_format
from mase_hw.formats.fixed import MIN_WIDTH_BITS, Fixed
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.geometry.window import Axis, Gather, Window
from mase_hw.ops._base import Call, Example, Reference, example
from mase_hw.ops._interfaces import Numeric, Selecting
from mase_hw.ops._library import define
from mase_hw.ops.pooling._pool import Pool

WINDOWS = "(Tensor self, int[] rows, int[] columns, int[] kernel) -> Tensor"


class _ListedWindows(Pool):
    """A pool whose windows are the arguments `rows`, `columns` and the size `kernel` of both.

    The rows of one window follow each other, then those of the next; -1 is outside.
    """

    dimensions = 2
    maximum = True

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        sizes = call.operands["data_in_0"].shape[2:]
        return axes_of(sizes, *(call.attributes[key] for key in ("rows", "columns", "kernel")))


def axes_of(
    sizes: Sequence[int], rows: Sequence[int], columns: Sequence[int], kernel: Sequence[int]
) -> tuple[Axis, Axis]:
    """Return the axes of listed windows over an image."""
    vertical, horizontal = (
        Axis.of(size, torch.tensor(list(places)).reshape(-1, count).tolist())
        for size, places, count in zip(sizes, (rows, columns), kernel, strict=True)
    )
    return vertical, horizontal


def listed(rows: Axis, columns: Axis) -> list[list[int]]:
    """Return the arguments that give two axes: rows, columns and the size of a window."""
    places = [axis.indices.reshape(-1).tolist() for axis in (rows, columns)]
    return [*places, [rows.kernel, columns.kernel]]


def merged(outer: Axis, inner: Axis) -> Axis:
    """Return two axes as one, whose places are those of both dimensions as one."""
    first = torch.from_numpy(outer.indices)[:, None, :, None]
    second = torch.from_numpy(inner.indices)[None, :, None, :]
    places = torch.where((first < 0) | (second < 0), -1, first * inner.size + second)
    windows = places.reshape(outer.positions * inner.positions, -1)
    return Axis.of(outer.size * inner.size, windows.tolist())


def indices(data: Tensor, channels: int, positions: Sequence[int], axes: Sequence[Axis]) -> Any:
    """Return the places of the largest elements of windows over one to three dimensions.

    Args:
        data: stands for `[batch, channels, ...]`.
        channels: how many there are.
        positions: of the windows, in each dimension.
        axes: of the windows, one for each dimension.
    """
    return _reduced(torch.ops.mase.window_index.default, data, channels, positions, axes)


def largest(data: Tensor, channels: int, positions: Sequence[int], axes: Sequence[Axis]) -> Tensor:
    """Return the largest elements themselves."""
    return _reduced(torch.ops.mase.window_max.default, data, channels, positions, axes)


def _reduced(
    target: Callable[..., object],
    data: Tensor,
    channels: int,
    positions: Sequence[int],
    axes: Sequence[Axis],
) -> Tensor:
    *outer, across = [Axis.of(1, [[0]]), *axes]
    down = outer[0]
    for axis in outer[1:]:
        down = merged(down, axis)
    image = aten.reshape.default(data, [-1, channels, down.size, across.size])
    found = target(image, *listed(down, across))
    result: Tensor = aten.reshape.default(found, [-1, channels, *positions])
    return result


def windows_of(values: Tensor, rows: list[int], columns: list[int], kernel: list[int]) -> Tensor:
    """Return `[batch, channels, elements of a window, positions]`, minus infinity outside."""
    axes = axes_of(values.shape[2:], rows, columns, kernel)
    fill: Any = -torch.inf
    return Gather(*axes, fill=fill)(values)


def empty_result(
    values: Tensor,
    rows: list[int],
    columns: list[int],
    kernel: list[int],
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return an empty tensor in the shape of one element for each window."""
    size = (*values.shape[:2], len(rows) // kernel[0], len(columns) // kernel[1])
    return values.new_empty(size, dtype=dtype)


def window_max(values: Tensor, rows: list[int], columns: list[int], kernel: list[int]) -> Tensor:
    """Return the largest pixels, `[batch, channels, rows of windows, columns of windows]`."""
    largest = windows_of(values, rows, columns, kernel).amax(2)
    return largest.reshape(*values.shape[:2], -1, len(columns) // kernel[1])


define(f"window_max{WINDOWS}", window_max, opaque=True, shapes=empty_result)


class WindowMax(_ListedWindows, Selecting, Numeric):
    """Pixels outside the image never win."""

    name = "window_max"
    targets = ("mase.window_max.default",)
    keeps_format = True

    def examples(self) -> list[Example]:
        target = torch.ops.mase.window_max.default
        windows = [0, 1, 2, 3], [0, 1, 3, 4, 4, 5], [2, 2]
        return [example(lambda x: target(x, *windows), (2, 3, 4, 6))]


def window_index(values: Tensor, rows: list[int], columns: list[int], kernel: list[int]) -> Tensor:
    """Return the places, `[batch, channels, rows of windows, columns of windows]`."""
    windows = windows_of(values, rows, columns, kernel)
    places = windows_of(_places(values.shape[-2:]), rows, columns, kernel)[0, 0].long()
    indices = places.gather(0, windows.argmax(2).reshape(-1, places.shape[1]))
    return indices.reshape(*values.shape[:2], -1, len(columns) // kernel[1])


def _places(sizes: torch.Size) -> Tensor:
    return torch.arange(float(sizes.numel())).reshape(1, 1, *sizes)


define(
    f"window_index{WINDOWS}",
    window_index,
    opaque=True,
    shapes=lambda x, rows, columns, kernel: empty_result(x, rows, columns, kernel, torch.int64),
)


class WindowIndex(_ListedWindows, Selecting, Numeric):
    """The place in the window, of which a table makes one in the image, and its position's."""

    name = "window_index"
    targets = ("mase.window_index.default",)
    casts = False

    def result_format(self, call: Call) -> Format | None:
        last = call.operands["data_in_0"].shape[2] * call.operands["data_in_0"].shape[3] - 1
        width = max(MIN_WIDTH_BITS, last.bit_length())
        return make_format({"name": "fixed", "width": width, "frac_width": 0, "signed": False})

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if not problems and any(_line(axis) is None for axis in self.axes(call)):
            problems.append("the elements of its windows are not the same way apart in all of them")
        return problems

    def reference(self, call: Call) -> Reference:
        axes, shape = self.axes(call), call.result.shape
        gather = Gather(*axes, fill=fixed(call.operands["data_in_0"]).minimum_code - 1)
        sizes = call.operands["data_in_0"].shape[2:]
        places = Gather(*axes, fill=-1)(_places(torch.Size(sizes)).long())[0, 0]

        def compute(codes: Tensor) -> Tensor:
            first = gather(codes).argmax(2).reshape(-1, places.shape[1])
            return places.gather(0, first).reshape(-1, *shape[1:])

        return compute

    def hardware(self, call: Call) -> Netlist:
        data, result = call.operands["data_in_0"], call.result
        net, lanes = NetlistBuilder(call.ports), call.operands["data_in_0"].parallelism[1]
        wide, number = _wider(fixed(data)), result.quantized.encoding
        shown = net.add(
            CastFixed(data.quantized.encoding, wide.encoding, lanes, beats=data.beats),
            "below",
            data_in_0=net.input("data_in_0"),
        )
        window = Window(*self.axes(call), data.tiles[1], 1)
        image = SlidingWindow(window, net.port(shown), pad_code=wide.minimum_code)
        shown = net.add(image, "window", data_in=shown)
        bits = max(MIN_WIDTH_BITS, (window.terms - 1).bit_length())
        beats = net.port(shown).beats or window.beats
        place = net.add(
            Argmax(wide.encoding, lanes, bits, 0, window.terms, 1, beats), "place", data_in_0=shown
        )
        steps, bases = self._steps(call, 1 << bits), self._bases(call)
        largest = int(torch.cat([steps, bases]).abs().max())
        signed = Fixed(max(MIN_WIDTH_BITS, largest.bit_length() + 1), 0)
        words = Image(signed.encoding.width, lambda: signed.to_fields(steps)[""].tolist())
        table = UnaryTable(
            Encoding(bits, signed=False), signed.encoding, lanes, words, beats=result.beats
        )
        step = net.add(table, "steps", data_in_0=place)
        spec = TensorSpec((bases.numel(), lanes), result.dtype, signed, parallelism=(1, lanes))
        base = net.memory(
            "base",
            RomSource.of(
                spec,
                lambda: spec.to_beats(bases[:, None].expand(-1, lanes)),
                hold=data.tiles[1],
            ),
        )
        cell = BinaryFixed(
            signed.encoding,
            number,
            lanes,
            signed.encoding,
            Operation.ADD,
            beats=result.beats,
        )
        return net.netlist(data_out_0=net.add(cell, data_in_0=step, data_in_1=base))

    def _steps(self, call: Call, count: int) -> Tensor:
        """Return how far each place of a window is behind its first one, by its number."""
        rows, columns = self.axes(call)
        (_, down), (_, right) = _offsets(rows), _offsets(columns)
        steps = (down[:, None] * columns.size + right).flatten()
        return torch.nn.functional.pad(steps, (0, count - steps.numel()))

    def _bases(self, call: Call) -> Tensor:
        """Return the place of the first element of each window, outside or not."""
        rows, columns = self.axes(call)
        (tops, _), (lefts, _) = _offsets(rows), _offsets(columns)
        return (tops[:, None] * columns.size + lefts).flatten()

    def examples(self) -> list[Example]:
        target = torch.ops.mase.window_index.default
        overlap = [-1, 0, 1, 1, 2, 3], [-1, 0, 1, 1, 2, 3, 3, 4, -1], [3, 3]
        apart = [0, 1, 2, 3], [0, 1, 2, 3, 4, 5], [2, 2]
        return [
            example(lambda x: target(x, *overlap), (2, 3, 4, 5)),
            example(lambda x: target(x.relu(), *apart), (2, 2, 4, 6)),
        ]


def _wider(data: Fixed) -> Fixed:
    """Return a format with a number below all of another one."""
    width = data.width + 1
    return Fixed(width, data.frac_width, signed=True)


def _line(axis: Axis) -> tuple[Tensor, Tensor] | None:
    """First element of each window, and the offsets of the others behind it.

    Windows begin outside, too. None where elements are not the same way apart in all windows.
    """
    places = torch.from_numpy(axis.indices)
    inside = places >= 0
    offsets, located = torch.zeros(axis.kernel, dtype=torch.int64), inside[inside.sum(1).argmax()]
    offsets[located] = places[inside.sum(1).argmax()][located]
    while bool((shared := (inside & located).any(1) & (inside & ~located).any(1)).any()):
        window = int(shared.long().argmax())
        start = _starts(places[window : window + 1], offsets, located)
        added = inside[window] & ~located
        offsets[added] = (places[window] - start)[added]
        located = located | added
    starts = _starts(places, offsets, located)
    whole = torch.where(inside, starts[:, None] + offsets, places)
    return (starts, offsets) if torch.equal(whole, places) else None


def _starts(places: Tensor, offsets: Tensor, located: Tensor) -> Tensor:
    """First elements of windows, by an element of each whose offset is located."""
    usable = (places >= 0) & located
    first = usable.long().argmax(1, keepdim=True)
    starts = (places - offsets).gather(1, first)[:, 0]
    return torch.where(usable.any(1), starts, 0)


def _offsets(axis: Axis) -> tuple[Tensor, Tensor]:
    line = _line(axis)
    assert line is not None
    return line
