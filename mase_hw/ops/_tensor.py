"""What is known of one tensor in a graph, and how it is cut into the beats of a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import Format, make_format


@dataclass(frozen=True)
class TensorSpec:
    """Shape, dtype, number format and parallelism of one tensor of one inference.

    A tensor is streamed as tiles of `parallelism` in row-major order over (dim 1, dim 0), leading
    dimensions walked in order. DIM_0 is the last torch dimension. Lane `row * PARALLELISM_DIM_0 +
    column` of a beat holds one element; lanes of a tile that lie outside the tensor are padding,
    whose value is unspecified and which every consumer ignores.

    Attributes:
        shape: torch shape, with a batch dimension of 1 where the model has one.
        dtype: torch dtype name, such as `float32`.
        format: number format, or None while it is not quantised.
        parallelism: (DIM_1, DIM_0) elements moved per beat.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    format: Format | None = None
    parallelism: tuple[int, int] = (1, 1)

    @property
    def quantized(self) -> Format:
        """The number format, which must be known."""
        if self.format is None:
            raise UnsupportedError("a tensor has no number format")
        return self.format

    @property
    def size(self) -> tuple[int, int]:
        """Elements along (DIM_1, DIM_0)."""
        padded = (1, 1, *self.shape)
        return padded[-2], padded[-1]

    @property
    def leading(self) -> int:
        """Product of the dimensions beyond DIM_1."""
        return math.prod(self.shape[:-2])

    @property
    def elements(self) -> int:
        """Elements of one inference."""
        return math.prod(self.shape)

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along (DIM_1, DIM_0); the last one of a dimension may be padded."""
        (d1, d0), (p1, p0) = self.size, self.parallelism
        return -(-d1 // p1), -(-d0 // p0)

    @property
    def beats(self) -> int:
        """Beats of one inference."""
        return self.leading * self.tiles[0] * self.tiles[1]

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
        tensor = codes.reshape(-1, d1, d0)
        padding = (0, t0 * p0 - d0, 0, t1 * p1 - d1)
        if any(padding):
            tensor = torch.nn.functional.pad(tensor, padding, value=fill)
        tiled = tensor.reshape(-1, t1, p1, t0, p0).permute(0, 1, 3, 2, 4)
        return tiled.reshape(-1, p1 * p0)

    def from_beats(self, beats: Tensor) -> Tensor:
        """Undo `to_beats`: beats `[inferences * beats, lanes]` to codes `[inferences, *shape]`."""
        (d1, d0), (p1, p0), (t1, t0) = self.size, self.parallelism, self.tiles
        tiled = beats.reshape(-1, t1, t0, p1, p0).permute(0, 1, 3, 2, 4)
        tensor = tiled.reshape(-1, t1 * p1, t0 * p0)[:, :d1, :d0]
        return tensor.reshape(-1, *self.shape)

    def with_format(self, number_format: Format | None) -> TensorSpec:
        """Return this tensor in another number format."""
        return replace(self, format=number_format)

    def with_parallelism(self, dim_1: int, dim_0: int) -> TensorSpec:
        """Return this tensor with another parallelism."""
        return replace(self, parallelism=(dim_1, dim_0))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description, which `from_dict` reads."""
        return {
            "shape": list(self.shape),
            "dtype": self.dtype,
            "format": self.format.to_dict() if self.format else None,
            "parallelism": list(self.parallelism),
        }

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> TensorSpec:
        """Read what `to_dict` wrote."""
        dim_1, dim_0 = description["parallelism"]
        return cls(
            tuple(description["shape"]),
            description["dtype"],
            make_format(description["format"]) if description["format"] else None,
            (dim_1, dim_0),
        )
