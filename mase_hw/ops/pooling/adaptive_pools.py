"""Largest elements and means of as many windows as results are asked for.

Position `q` of `n` covers pixels `floor(q * size / n)` to `ceil((q + 1) * size / n) - 1`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn
from torch.nn.functional import adaptive_max_pool1d, adaptive_max_pool2d

from mase_hw._aten import aten
from mase_hw.cells import Netlist
from mase_hw.geometry.runs import Run
from mase_hw.geometry.window import OUTSIDE, Axis, image_size
from mase_hw.ops._base import Call, Example, example, torch_target
from mase_hw.ops._composite import composition
from mase_hw.ops._interfaces import Numeric, Rewritten, Selecting
from mase_hw.ops._library import define
from mase_hw.ops.pooling._pool import Dims, Pool, pooled, positions, refuse_shape
from mase_hw.ops.pooling.windows import indices


class _AdaptivePool(Pool):
    """Windows of different sizes are filled up with pixels outside, which do not count.

    A single window over the whole image needs no buffer: its pixels are reduced as they come.
    """

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        _, *sizes = image_size(call.operands["data_in_0"])
        _, *positions = image_size(call.result)
        return shared(sizes[0], positions[0]), shared(sizes[1], positions[1])

    def hardware(self, call: Call) -> Netlist:
        if any(size > 1 for size in call.result.shape[2:]):
            return super().hardware(call)
        _, rows, columns = image_size(call.operands["data_in_0"])
        pixels = Run(rows * columns, call.result.tiles[1])
        return Netlist.single(call.ports, self.reduction(call, pixels))


def shared(size: int, positions: int) -> Axis:
    """Return windows that share a dimension out."""
    windows = [
        list(range(q * size // positions, -(-(q + 1) * size // positions)))
        for q in range(positions)
    ]
    longest = max(len(window) for window in windows)
    return Axis.of(size, [w + [OUTSIDE] * (longest - len(w)) for w in windows])


class AdaptiveAvgPool2d(_AdaptivePool):
    """Mean of windows that share an image out evenly (torch.nn.functional.adaptive_avg_pool2d)."""

    name = "adaptive_avg_pool2d"
    targets = ("aten.adaptive_avg_pool2d.default",)
    dimensions = 2

    def counts(self, call: Call) -> tuple[list[int], list[int]]:
        rows, columns = self.axes(call)
        return (rows.indices >= 0).sum(1).tolist(), (columns.indices >= 0).sum(1).tolist()

    def examples(self) -> list[Example]:
        return [
            example(nn.AdaptiveAvgPool2d(1), (2, 5, 3, 4)),
            example(nn.AdaptiveAvgPool2d((3, 2)), (2, 2, 5, 3)),
        ]


class AdaptiveAvgPool1d(AdaptiveAvgPool2d):
    """Mean of windows that share a signal out evenly (torch.nn.functional.adaptive_avg_pool1d)."""

    name = "adaptive_avg_pool1d"
    targets = ("aten.adaptive_avg_pool1d.default",)
    dimensions = 1

    def examples(self) -> list[Example]:
        return [example(nn.AdaptiveAvgPool1d(3), (2, 3, 7))]


@composition(
    "aten.adaptive_avg_pool3d.default",
    examples=lambda: [
        example(nn.AdaptiveAvgPool3d(1), (2, 3, 2, 3, 2)),
        example(nn.AdaptiveAvgPool3d((2, 3, 2)), (2, 2, 3, 5, 2)),
    ],
    refusal=refuse_shape,
)
def adaptive_avg_pool3d(call: Call, data: Tensor) -> Tensor:
    """Mean of windows that share a volume out evenly (torch.nn.functional.adaptive_avg_pool3d)."""

    def pool(image: Tensor, dims: Dims) -> Tensor:
        return aten.adaptive_avg_pool2d.default(image, positions(call, dims))

    return pooled(call, data, pool)


define(
    "adaptive_max_pool2d(Tensor self, SymInt[] size) -> Tensor",
    lambda values, size: adaptive_max_pool2d(values, size),
)


class AdaptiveMaxPool2d(_AdaptivePool, Selecting, Numeric, Rewritten):
    """Largest pixel of windows that share an image out (F.adaptive_max_pool2d)."""

    name = "adaptive_max_pool2d"
    targets = ("mase.adaptive_max_pool2d.default", "aten.adaptive_max_pool2d.default")
    dimensions = 2
    maximum = True
    keeps_format = True

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        rank = len(call.operands["data_in_0"].shape)
        if len(call.results) == 1 or rank != self.dimensions + 2:
            return None
        return with_places(torch_target(self.targets[0]), call, operands["data_in_0"])

    def examples(self) -> list[Example]:
        return [
            example(nn.AdaptiveMaxPool2d(1), (2, 5, 3, 4)),
            example(nn.AdaptiveMaxPool2d((3, 2)), (2, 2, 5, 3)),
            example(lambda x: adaptive_max_pool2d(x, (3, 2), return_indices=True)[1], (2, 2, 5, 3)),
        ]


def with_places(target: Callable[..., object], call: Call, data: Tensor) -> list[Tensor]:
    """Return the largest elements of windows that share a tensor out, and where they are."""
    sizes, positions = call.operands["data_in_0"].shape[2:], list(call.result.shape[2:])
    axes = [shared(*item) for item in zip(sizes, positions, strict=True)]
    return [target(data, positions), indices(data, call.result.shape[1], positions, axes)]


define(
    "adaptive_max_pool1d(Tensor self, SymInt[] size) -> Tensor",
    lambda values, size: adaptive_max_pool1d(values, size),
)


class AdaptiveMaxPool1d(AdaptiveMaxPool2d):
    """Largest element of windows that share a signal out (F.adaptive_max_pool1d)."""

    name = "adaptive_max_pool1d"
    targets = ("mase.adaptive_max_pool1d.default", "aten.adaptive_max_pool1d.default")
    dimensions = 1

    def examples(self) -> list[Example]:
        return [example(nn.AdaptiveMaxPool1d(3), (2, 3, 7))]


@composition(
    "aten.adaptive_max_pool3d.default",
    examples=lambda: [
        example(nn.AdaptiveMaxPool3d(1), (2, 3, 2, 3, 2)),
        example(nn.AdaptiveMaxPool3d((2, 3, 2)), (2, 2, 3, 5, 2)),
    ],
    refusal=refuse_shape,
)
def adaptive_max_pool3d(call: Call, data: Tensor) -> list[Tensor]:
    """Largest element of windows that share a volume out, and its place (F.adaptive_max_pool3d)."""

    def pool(image: Tensor, dims: Dims) -> Tensor:
        return torch_target("mase.adaptive_max_pool2d.default")(image, positions(call, dims))

    largest = pooled(call, data, pool)
    return [largest] if len(call.results) == 1 else with_places(lambda *_: largest, call, data)
