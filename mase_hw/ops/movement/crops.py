"""Parts of a dimension, such as the step that one of several alike steps takes (`x[:, index]`)."""

from __future__ import annotations

from abc import abstractmethod
from math import prod

from torch import Tensor

from mase_hw.cells import Netlist
from mase_hw.cells.crop import Crop as CropCell
from mase_hw.geometry.runs import stream_axes
from mase_hw.geometry.tensor import Order
from mase_hw.geometry.window import ONE_PIXEL, Axis
from mase_hw.ops._base import Call, Example, along_batch, example, torch_target
from mase_hw.ops._interfaces import Ordered, Removable
from mase_hw.ops._library import define
from mase_hw.ops.movement._moves import GatherRows


class Crop(GatherRows, Ordered):
    """Keeps chosen indices of a dimension; the others are dropped as they come."""

    keeps_dimension = True

    @abstractmethod
    def indices(self, call: Call) -> range:
        """Return the indices that stay."""

    def dim(self, call: Call) -> int:
        """Return the dimension, counted from the front."""
        return int(call.attributes["dim"]) % len(call.operands["data_in_0"].shape)

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if self.dim(call) == 0 and len(call.operands["data_in_0"].shape) > 1:
            problems.append(along_batch("it cuts", "cut another one"))
        if not self.indices(call):
            problems.append("it leaves no element; check its bounds")
        return problems

    def copy(self, call: Call, codes: Tensor) -> Tensor:
        kept = codes.movedim(self.dim(call), 0)[list(self.indices(call))]
        return kept.movedim(0, self.dim(call)) if self.keeps_dimension else kept[0]

    def orders(self, call: Call) -> dict[str, Order | None]:
        data, result, dim = call.operands["data_in_0"], call.result, self.dim(call)
        order = data.order if stream_axes(data) is not None else None
        axes = stream_axes(data.with_order(order)) or ()
        if not self.keeps_dimension:
            axes = tuple(axis - (axis > dim) for axis in axes if axis != dim)
        return {"data_in_0": order, "data_out_0": Order.permuted(result.shape, axes)}

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return super().ties(call) if self.keeps_dimension or not self._lanes(call) else []

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        if not self._lanes(call) or self._shifts(call):
            return ONE_PIXEL
        return {**ONE_PIXEL, ("data_in_0", 0): 1, ("data_out_0", 0): 1}

    def hardware(self, call: Call) -> Netlist:
        if not self._shifts(call):
            return super().hardware(call)
        data = call.operands["data_in_0"]
        cell = CropCell(
            data.quantized.encoding.width,
            data.lanes,
            data.size[1],
            call.result.size[1],
            self.indices(call).start,
            data.beats // data.tiles[1],
        )
        return Netlist.single(call.ports, cell)

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        data, kept = call.operands["data_in_0"], self.indices(call)
        if self._lanes(call):
            tiles = sorted({index // data.parallelism[1] for index in kept})
            return Axis.of(1, [[0]]), Axis.of(data.tiles[1], [[tile] for tile in tiles])
        inner = self._inner(call)
        size = data.shape[self.dim(call)]
        return Axis.of(size, [[i] for i in kept]), Axis.of(inner, [[i] for i in range(inner)])

    def pixel_beats(self, call: Call) -> int:
        """Return 1 where the beats of a row are chosen."""
        return 1 if self._lanes(call) else super().pixel_beats(call)

    def _shifts(self, call: Call) -> bool:
        """Return true when neighbouring elements of each row stay, and stay neighbours."""
        return self.keeps_dimension and self._lanes(call) and self.indices(call).step == 1

    def _lanes(self, call: Call) -> bool:
        axes = stream_axes(call.operands["data_in_0"])
        return axes is not None and axes[-1] == self.dim(call)

    def _inner(self, call: Call) -> int:
        """Return the elements of a row of the dimension, without those of its lanes."""
        data = call.operands["data_in_0"]
        axes = stream_axes(data) or ()
        place = axes.index(self.dim(call))
        return prod(data.shape[axis] for axis in axes[place + 1 : -1])


class Select(Crop):
    """One element along a dimension, which goes: `x[:, index]`, from the end below zero."""

    name = "select"
    targets = ("aten.select.int",)
    keeps_dimension = False

    def indices(self, call: Call) -> range:
        index = int(call.attributes["index"]) % call.operands["data_in_0"].shape[self.dim(call)]
        return range(index, index + 1)

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x[:, -1], (2, 3, 5)),
            example(lambda x: x[:, :, 1], (2, 4, 3)),
        ]


class Slice(Crop, Removable):
    """Some of the elements along a dimension (`x[:, start:end:step]`), clamped as Python does."""

    name = "slice"
    targets = ("aten.slice.Tensor", "aten.narrow.default")

    def indices(self, call: Call) -> range:
        attributes, size = call.attributes, call.operands["data_in_0"].shape[self.dim(call)]
        if "length" in attributes:
            start = int(attributes["start"]) % size
            return range(start, start + int(attributes["length"]))
        return range(
            *slice(attributes["start"], attributes["end"], attributes["step"]).indices(size)
        )

    def is_identity(self, call: Call) -> bool:
        return call.operands["data_in_0"].shape == call.result.shape

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x[:, :4], (2, 7)),
            example(lambda x: x[:, 1::2], (2, 5, 3)),
            example(lambda x: x[:, :, 1:3], (2, 3, 5)),
        ]


def _taken(values: Tensor, index: int) -> Tensor:
    return values.select(1, index).clone()


define("take(Tensor self, int index) -> Tensor", _taken)


class Take(Select):
    """Step `index` of the steps along dimension 1.

    All steps of a sequence are in one number format. Where steps run on the same hardware it is a
    wire, because their parts follow each other in the stream.
    """

    name = "take"
    targets = ("mase.take.default",)
    role = "take"

    def dim(self, call: Call) -> int:
        return 1

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return {("data_in_0", 1): 1, ("data_out_0", 1): 1}

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return [[("data_in_0", 0), ("data_out_0", 0)]]

    def orders(self, call: Call) -> dict[str, Order | None]:
        return {"data_in_0": None, "data_out_0": None}

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        return [example(lambda x: target(x, 1), (2, 3, 5))]
