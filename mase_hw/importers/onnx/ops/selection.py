"""Places that are computed or listed, and grids of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Constant, Function, NodeCall, Value, sizes
from mase_hw.importers.onnx.ops.elementwise import dtype_of


def _one_hot(node: NodeCall, index: Tensor, depth: Value, values: Tensor) -> Tensor:
    axis, count = node.get("axis", -1) % (index.dim() + 1), node.integer(depth, "depth")
    index, (off, on) = index.long(), values
    index = torch.where(index < 0, index + count, index)
    places = torch.arange(count).reshape([-1] + [1] * (index.dim() - axis))
    return torch.where(index.unsqueeze(axis) == places, on, off)


def _hardmax(node: NodeCall, x: Tensor) -> Tensor:
    values, axis = x, node.get("axis", -1 if node.version >= 13 else 1)
    if node.version < 13:
        values, axis = values.flatten(axis) if axis else values.reshape(1, -1), -1
    places = torch.arange(values.shape[axis])
    places = places.reshape([-1] + [1] * (values.dim() - axis % values.dim() - 1))
    return (values.argmax(axis, keepdim=True) == places).to(values.dtype).reshape(x.shape)


def _gather_nd(node: NodeCall, x: Tensor, index: Tensor) -> Tensor:
    listed = [item.squeeze(-1) for item in torch.split(index.long(), 1, -1)]
    batch = [
        torch.arange(x.shape[dim]).reshape([-1] + [1] * (index.dim() - dim - 2))
        for dim in range(node.get("batch_dims", 0))
    ]
    return x[(*batch, *listed)]


# Reductions of `scatter_reduce` by their names in ONNX.
_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_nd(node: NodeCall, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    values, shape, how = x.clone(), x.shape, node.get("reduction", "none")
    places = tuple(item.squeeze(-1) for item in torch.split(index.long(), 1, -1))
    if how in ("none", "add"):
        return values.index_put(places, updates, accumulate=how == "add")
    strides = [math.prod(shape[dim + 1 :]) for dim in range(len(places))]
    flat = sum((a % size) * b for a, b, size in zip(places, strides, shape, strict=False))
    assert isinstance(flat, Tensor)
    spread = (flat.unsqueeze(-1) + torch.arange(math.prod(shape[len(places) :]))).reshape(-1)
    values, updates = values.reshape(-1), updates.reshape(-1)
    return values.scatter_reduce(0, spread, updates, _REDUCTIONS[how]).reshape(shape)


def _scatter_elements(node: NodeCall, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    axis, how = node.get("axis", 0), node.get("reduction", "none")
    where = index.long() % x.shape[axis]
    if how == "none":
        return x.scatter(axis, where, updates)
    return x.scatter_reduce(axis, where, updates, _REDUCTIONS[how])


def _eye_like(node: NodeCall, x: Tensor) -> Tensor:
    (rows, columns), kind = x.shape, node.get("dtype")
    below = torch.arange(columns) - torch.arange(rows).unsqueeze(1)
    where: Tensor = below == node.get("k", 0)
    return where.to(x.dtype if kind is None else dtype_of(node, kind))


def _compress(node: NodeCall, x: Tensor, condition: Value) -> Tensor:
    places = torch.from_numpy(np.flatnonzero(node.array(condition, "condition")))
    axis = node.get("axis")
    return (x.reshape(-1) if axis is None else x).index_select(axis or 0, places)


def _center_crop_pad(node: NodeCall, x: Tensor, shape: Value) -> Tensor:
    axes = node.get("axes") or list(range(x.dim()))
    for axis, size in zip(axes, sizes(node.array(shape, "shape")), strict=True):
        more = int(size) - x.shape[axis]
        if more < 0:
            x = x.narrow(axis, -more // 2, int(size))
        elif more > 0:
            dims = x.dim() - axis % x.dim() - 1
            x = F.pad(x, [0, 0] * dims + [more // 2, more - more // 2])
    return x


def _reverse_sequence(node: NodeCall, x: Tensor, lengths: Tensor) -> Tensor:
    time, ends = node.get("time_axis", 0), lengths.long().unsqueeze(1)
    count = torch.arange(x.shape[time])
    where = torch.where(count < ends, ends - 1 - count, count)
    where = where if node.get("batch_axis", 1) < time else where.transpose(0, 1)
    return x.gather(time, where.reshape([*where.shape, *[1] * (x.dim() - 2)]).expand(x.shape))


def _tensor_scatter(
    node: NodeCall, past: Tensor, update: Tensor, places: Tensor | None = None
) -> Tensor:
    axis, count = node.get("axis", -2) % past.dim(), past.shape[0]
    start = torch.zeros(count, dtype=torch.int64) if places is None else places.long()
    where = start.unsqueeze(1) + torch.arange(update.shape[axis])
    if node.get("mode", "linear") == "circular":
        where = where % past.shape[axis]
    shape = [where.shape[0], *[1] * (axis - 1), where.shape[1], *[1] * (past.dim() - axis - 1)]
    return past.scatter(axis, where.reshape(shape).expand(update.shape), update)


def _grid_sample(node: NodeCall, x: Tensor, grid: Tensor) -> Tensor:
    mode, padding = str(node.get("mode", "bilinear")), str(node.get("padding_mode", "zeros"))
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, mode, padding, bool(node.get("align_corners", 0)))


def _affine_grid(node: NodeCall, theta: Tensor, size: Value) -> Tensor:
    shape = [int(item) for item in sizes(node.array(size, "size"))]
    return F.affine_grid(theta, shape, bool(node.get("align_corners", 0)))


def _col2im(node: NodeCall, x: Tensor, image: Value, block: Value) -> Tensor:
    shape, kernel = (sizes(node.array(item, "shape")) for item in (image, block))
    rank = len(shape)
    strides, dilations = (node.get(word) or [1] * rank for word in ("strides", "dilations"))
    pads = node.get("pads") or [0] * 2 * rank
    if rank != 2:
        raise node.refuse(f"images of {rank} dimensions are not known; allowed are 2")
    whole = [size + pads[i] + pads[i + rank] for i, size in enumerate(shape)]
    fold: Any = F.fold
    folded: Tensor = fold(x, whole, kernel, dilations, 0, strides)
    (top, left), (height, width) = pads[:2], shape
    return folded[:, :, top : top + height, left : left + width]


def _window(*weights: float) -> Function:
    """A window that is a sum of cosines."""

    def compute(node: NodeCall, size: Value) -> Constant:
        count, kind = node.integer(size, "size"), node.get("output_datatype", 1)
        steps = 2 * np.pi * np.arange(count) / (count - (not node.get("periodic", 1)) or 1)
        total = sum((-1) ** k * a * np.cos(k * steps) for k, a in enumerate(weights))
        if kind not in (1, 11):
            raise node.refuse("windows are float32 or float64")
        return Constant(np.asarray(total, np.float32 if kind == 1 else float))

    return compute


OPERATORS: dict[str, Function] = {
    "AffineGrid": _affine_grid,
    "BlackmanWindow": _window(0.42, 0.5, 0.08),
    "CenterCropPad": _center_crop_pad,
    "Col2Im": _col2im,
    "Compress": _compress,
    "Det": lambda node, x: torch.linalg.det(node.tensor(x)),
    "EyeLike": _eye_like,
    "GatherND": _gather_nd,
    "GridSample": _grid_sample,
    "HammingWindow": _window(25 / 46, 21 / 46),
    "HannWindow": _window(0.5, 0.5),
    "Hardmax": _hardmax,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
}
