"""What is known of one tensor in a graph, and how it is cut into the beats of a stream."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from mase_hw._kinds import Record
from mase_hw.errors import UnsupportedError
from mase_hw.formats import Format, make_format
from mase_hw.geometry.growth import Growth


@dataclass(frozen=True)
class Order:
    """An order of elements in a stream other than torch's row-major one.

    The elements `t.reshape(view).permute(axes).reshape(stream)` are streamed in row-major order.
    Images stream channels last, so that a window can slide over them.

    Attributes:
        view: shape of one inference before the permutation.
        axes: permutation of the dimensions of `view`.
        stream: shape that is streamed.
    """

    view: tuple[int, ...]
    axes: tuple[int, ...]
    stream: tuple[int, ...]

    @classmethod
    def channels_last(cls, shape: tuple[int, ...]) -> Order | None:
        """Return the order of `[1, channels, *space]` with channels last; None without space.

        Args:
            shape: torch shape of one inference with a leading 1.
        """
        axes = (0, *range(2, len(shape)), 1)
        if len(shape) < 3:
            return None
        return cls(shape, axes, tuple(shape[axis] for axis in axes))

    @classmethod
    def permuted(cls, shape: tuple[int, ...], axes: tuple[int, ...]) -> Order | None:
        """Return the order of a tensor of `shape` whose dimensions stream as `axes` says."""
        return cls(shape, axes, tuple(shape[axis] for axis in axes)).simplified(shape)

    def flattened(self, stream: tuple[int, ...]) -> Order:
        """Return the same order of elements in another stream shape."""
        return Order(self.view, self.axes, stream)

    def simplified(self, shape: tuple[int, ...]) -> Order | None:
        """Return None where this order of a tensor of `shape` is torch's own, else itself."""
        moved = [axis for axis in self.axes if self.view[axis] > 1]
        return None if self.stream == shape and moved == sorted(moved) else self


# Elements of a dimension in a beat, at most.
_MOST_LANES = 1 << 24


@dataclass(frozen=True)
class TensorSpec:
    """Shape, dtype, number format and parallelism of one tensor of one inference.

    A tensor is streamed as tiles of `parallelism` in row-major order over (dim 1, dim 0), leading
    dimensions walked in order. DIM_0 is the last dimension of the streamed shape: torch's own,
    unless `order` says otherwise. Lane `row * PARALLELISM_DIM_0 +
    column` of a beat holds one element; lanes of a tile that lie outside the tensor are padding,
    whose value is unspecified and which every consumer ignores.

    Attributes:
        shape: torch shape, with a batch dimension of 1 where the model has one.
        dtype: torch dtype name, such as `float32`.
        format: number format, or None while it is not quantised.
        parallelism: (DIM_1, DIM_0) elements moved per beat.
        order: order of the elements in the stream; None is torch's row-major order.
        grows: whether rows along the last dimension, which streams innermost and one row at a time,
            end where row i of the dimension before has its element i. The beats behind that one
            are nothing that anybody needs, and do not stream.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    format: Format | None = None
    parallelism: tuple[int, int] = (1, 1)
    order: Order | None = None
    grows: bool = False

    @property
    def stream_shape(self) -> tuple[int, ...]:
        """The shape that is streamed."""
        return self.order.stream if self.order else self.shape

    @property
    def quantized(self) -> Format:
        """The number format, which must be known."""
        if self.format is None:
            raise UnsupportedError("a tensor has no number format")
        return self.format

    @property
    def size(self) -> tuple[int, int]:
        """Elements along (DIM_1, DIM_0)."""
        padded = (1, 1, *self.stream_shape)
        return padded[-2], padded[-1]

    @property
    def leading(self) -> int:
        """Product of the dimensions beyond DIM_1."""
        return math.prod(self.stream_shape[:-2])

    @property
    def elements(self) -> int:
        """Elements of one inference."""
        return math.prod(self.shape)

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along (DIM_1, DIM_0); the last one of a dimension may be padded."""
        shape, (p1, p0) = self.stream_shape, self.parallelism
        d1, d0 = (shape[-2], shape[-1]) if len(shape) > 1 else self.size
        return -(-d1 // p1), -(-d0 // p0)

    @property
    def rows(self) -> int:
        """Rows of tiles of one inference."""
        return math.prod(self.stream_shape[:-2]) * self.tiles[0]

    @property
    def beats(self) -> int:
        """Beats of one inference."""
        growth = self.growth
        return growth.beats * (self.rows // growth.runs) if growth else self.rows * self.tiles[1]

    @property
    def growth(self) -> Growth | None:
        """The beats of its rows where they grow; None where all are whole."""
        if not self.grows:
            return None
        rank = len(self.shape)
        axes = self.order.axes if self.order else tuple(range(rank))
        inside = math.prod(self.stream_shape[axes.index(rank - 2) + 1 : -1])
        return Growth(1, self.parallelism[1] * inside, self.shape[-2] * inside)

    def _streams(self) -> Tensor:
        """Return which beats of whole rows stream; bool `[beats]`."""
        growth = self.growth
        if growth is None:
            return torch.ones(self.beats, dtype=torch.bool)
        lengths = torch.from_numpy(growth.length(np.arange(self.rows)))
        return (torch.arange(self.tiles[1]) < lengths[:, None]).flatten()

    @property
    def lanes(self) -> int:
        """Elements of one beat."""
        return self.parallelism[0] * self.parallelism[1]

    def to_beats(self, codes: Tensor, fill: int = 0) -> Tensor:
        """Cut codes `[*leading, dim 1, dim 0]` into beats `[beats, lanes]`.

        Several inferences may lie one after another along the leading dimension. Padding lanes
        take `fill`.
        """
        (d1, d0), (p1, p0), (t1, t0) = self.size, self.parallelism, self.tiles
        tensor = self._ordered(codes).reshape(-1, d1, d0)
        padding = (0, t0 * p0 - d0, 0, t1 * p1 - d1)
        if any(padding):
            tensor = torch.nn.functional.pad(tensor, padding, value=fill)
        tiled = tensor.reshape(-1, t1, p1, t0, p0).permute(0, 1, 3, 2, 4)
        if not self.grows:
            return tiled.reshape(-1, p1 * p0)
        streams = self._streams()
        return tiled.reshape(-1, streams.numel(), p1 * p0)[:, streams].flatten(0, 1)

    def from_beats(self, beats: Tensor) -> Tensor:
        """Undo `to_beats`: beats `[inferences * beats, lanes]` to codes `[inferences, *shape]`.

        What does not stream is zero.
        """
        (d1, d0), (p1, p0), (t1, t0) = self.size, self.parallelism, self.tiles
        if self.grows:
            streams, lanes = self._streams(), beats.reshape(-1, self.beats, p1 * p0)
            beats = lanes.new_zeros(len(lanes), streams.numel(), p1 * p0)
            beats[:, streams] = lanes
        tiled = beats.reshape(-1, t1, t0, p1, p0).permute(0, 1, 3, 2, 4)
        tensor = tiled.reshape(-1, t1 * p1, t0 * p0)[:, :d1, :d0]
        if self.order is not None:
            permuted = tuple(self.order.view[axis] for axis in self.order.axes)
            inverse = sorted(range(len(permuted)), key=self.order.axes.__getitem__)
            tensor = tensor.reshape(-1, *permuted).permute(0, *(axis + 1 for axis in inverse))
        return tensor.reshape(-1, *self.shape)

    def _ordered(self, codes: Tensor) -> Tensor:
        if self.order is None:
            return codes
        axes = (axis + 1 for axis in self.order.axes)
        return codes.reshape(-1, *self.order.view).permute(0, *axes)

    def with_format(self, number_format: Format | None) -> TensorSpec:
        """Return this tensor in another number format."""
        return replace(self, format=number_format)

    def with_parallelism(self, dim_1: int, dim_0: int) -> TensorSpec:
        """Return this tensor with another parallelism."""
        return replace(self, parallelism=(dim_1, dim_0))

    def with_order(self, order: Order | None) -> TensorSpec:
        """Return this tensor streamed in another order."""
        return replace(self, order=order)

    def to_dict(self) -> Record:
        """Return a JSON-serialisable description, which `from_dict` reads."""
        description = {
            "shape": list(self.shape),
            "dtype": self.dtype,
            "format": self.format.to_dict() if self.format else None,
            "parallelism": list(self.parallelism),
            "order": asdict(self.order) if self.order else None,
        }
        return {**description, "grows": True} if self.grows else description

    @classmethod
    def from_dict(cls, description: Record) -> TensorSpec:
        """Read what `to_dict` wrote."""
        dim_1, dim_0 = description["parallelism"]
        for number in (*description["shape"], dim_1, dim_0):
            if isinstance(number, bool) or not isinstance(number, int):
                raise ValueError(f"{number!r} in a shape or a parallelism is no whole number")
        if not 1 <= min(dim_1, dim_0) <= max(dim_1, dim_0) <= _MOST_LANES:
            raise ValueError(f"parallelism is {dim_1} x {dim_0}; each is 1 to {_MOST_LANES}")
        return cls(
            tuple(description["shape"]),
            description["dtype"],
            make_format(description["format"]) if description["format"] else None,
            (dim_1, dim_0),
            _order(description["order"]),
            description.get("grows", False),
        )


def _order(description: Record | None) -> Order | None:
    if description is None:
        return None
    return Order(**{key: tuple(value) for key, value in description.items()})
