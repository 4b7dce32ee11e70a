"""Images read at places that stream (torch.nn.functional.grid_sample).

Every place weighs every pixel: in each dimension `max(0, 1 - |p - q|)`, or whether `q` is the
nearest to `p`. Beyond the image there are zeros, which need no weights. A product of matrices adds
the weighed pixels.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, example, example_values
from mase_hw.ops._composite import composition

BILINEAR, NEAREST = 0, 1
ZEROS, BORDER, REFLECTION = range(3)


def _refusal(call: Call) -> list[str]:
    if call.attributes["interpolation_mode"] not in (BILINEAR, NEAREST):
        return ["its mode is bicubic; bilinear and nearest are accepted"]
    if "data_in_0" in call.constants:
        return ["its image is constant; give it as an input"]
    return []


def _grid(*shape: int) -> Tensor:
    return example_values(*shape, seed=1).clamp(-1.2, 1.2)


def _sampled(**options: Any) -> Apply:
    sample = torch.nn.functional.grid_sample
    return Apply(lambda x, grid: sample(x, grid, **options))


@composition(
    "aten.grid_sampler.default",
    "aten.grid_sampler_2d.default",
    "aten.grid_sampler_3d.default",
    examples=lambda: [
        (_sampled(align_corners=False), (example_values(2, 2, 3, 4), _grid(2, 2, 3, 2))),
        (
            _sampled(mode="nearest", padding_mode="border", align_corners=True),
            (example_values(2, 2, 3, 4), _grid(2, 2, 3, 2)),
        ),
        (
            _sampled(padding_mode="reflection", align_corners=True),
            (example_values(2, 1, 2, 3, 2), _grid(2, 1, 2, 2, 3)),
        ),
        example(
            Apply(
                lambda x, grid: torch.nn.functional.grid_sample(
                    x, grid.expand(x.shape[0], -1, -1, -1), align_corners=False
                ),
                _grid(1, 2, 3, 2),
            ),
            (2, 2, 3, 4),
        ),
    ],
    refusal=_refusal,
    operand_names={"input": "data_in_0", "grid": "data_in_1"},
)
def grid_sample(call: Call, image: Tensor, grid: Tensor) -> Tensor:
    """Pixels at places, between pixels by weights (torch.nn.functional.grid_sample)."""
    _, channels, *sizes = call.operands["data_in_0"].shape
    places = prod(call.result.shape[2:])
    flat = aten.reshape.default(image, [-1, channels, prod(sizes)])
    if "data_in_1" in call.constants:
        weights = _constant_weights(call, sizes)
        sampled = aten.linear.default(flat, weights)
    else:
        rows = aten.reshape.default(grid, [-1, places, len(sizes)])
        weights = _weights(call, rows, sizes)
        sampled = aten.matmul.default(flat, aten.transpose.int(weights, 1, 2))
    return aten.reshape.default(sampled, [-1, *call.result.shape[1:]])


def _constant_weights(call: Call, sizes: list[int]) -> Tensor:
    """Weight of each pixel at each place of a constant grid, `[places, pixels]`."""
    pixels = prod(sizes)
    grid = call.constants["data_in_1"][:1]
    options = [call.attributes[name] for name in _OPTIONS]
    image = torch.eye(pixels, dtype=grid.dtype).reshape(1, pixels, *sizes)
    sampled: Tensor = aten.grid_sampler.default(image, grid, *options)
    return sampled.reshape(pixels, -1).t().contiguous()


_OPTIONS = ("interpolation_mode", "padding_mode", "align_corners")


def _weights(call: Call, places: Tensor, sizes: list[int]) -> Tensor:
    """Weight of each pixel at each place, `[rows, places, pixels]`; a grid's first is the width."""
    weights = None
    for number, size in enumerate(reversed(sizes)):
        one = _along(call, aten.slice.Tensor(places, 2, number, number + 1), size)
        if weights is None:
            weights = one
        else:
            product = aten.mul.Tensor(
                aten.unsqueeze.default(one, 3), aten.unsqueeze.default(weights, 2)
            )
            weights = aten.flatten.using_ints(product, 2, 3)
    assert weights is not None
    return weights


def _along(call: Call, place: Tensor, size: int) -> Tensor:
    """Weights along one dimension, `[rows, places, size]`, at places from -1 to 1."""
    mode, padding, corners = (call.attributes[name] for name in _OPTIONS)
    span = size - 1 if corners else size
    place = aten.add.Scalar(aten.mul.Scalar(place, span / 2), (size - 1) / 2)
    if padding == REFLECTION and span:
        # A wave of period `2 * span` around the ends, or around the outer edges of the last pixels.
        low = 0.0 if corners else -0.5
        turned = aten.remainder.Scalar(aten.sub.Scalar(place, low), 2 * span)
        distance = aten.abs.default(aten.sub.Scalar(turned, span))
        place = aten.rsub.Scalar(distance, span + low)
    if padding != ZEROS:
        place = aten.clamp.default(place, 0.0, size - 1.0)
    if mode == NEAREST:
        nearest = aten.eq.Tensor(aten.round.default(place), torch.arange(float(size)))
        return aten._to_copy.default(nearest, dtype=torch.float32)
    distance = aten.abs.default(aten.sub.Tensor(place, torch.arange(float(size))))
    return aten.relu.default(aten.rsub.Scalar(distance, 1.0))
