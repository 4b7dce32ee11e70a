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


def _one_hot(node: NodeCall, index: Value, depth: Value, values: Value) -> Tensor:
    axis, count = node.get("axis", -1), node.integer(depth, "depth")
    off, on = node.tensor(values)
    where = node.tensor(index, "index").long()
    where = torch.where(where < 0, where + count, where)
    axis %= where.dim() + 1
    places = torch.arange(count).reshape([-1] + [1] * (where.dim() - axis))
    return torch.where(where.unsqueeze(axis) == places, on, off)


def _hardmax(node: NodeCall, x: Value) -> Tensor:
    values, axis = node.tensor(x), node.get("axis", -1 if node.version >= 13 else 1)
    shape = values.shape
    if node.version < 13:
        values, axis = values.flatten(axis) if axis else values.reshape(1, -1), -1
    places = torch.arange(values.shape[axis])
    places = places.reshape([-1] + [1] * (values.dim() - axis % values.dim() - 1))
    return (values.argmax(axis, keepdim=True) == places).to(values.dtype).reshape(shape)


def _gather_nd(node: NodeCall, x: Value, index: Value) -> Tensor:
    values, where = node.tensor(x), node.tensor(index, "index").long()
    shared = node.get("batch_dims", 0)
    listed = [item.squeeze(-1) for item in torch.split(where, 1, -1)]
    rank = where.dim() - 1
    batch = [
        torch.arange(values.shape[dim]).reshape([-1] + [1] * (rank - dim - 1))
        for dim in range(shared)
    ]
    found: Tensor = values[(*batch, *listed)]
    return found


# Reductions of `scatter_reduce` by their names in ONNX.
_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_nd(node: NodeCall, x: Value, index: Value, updates: Value) -> Tensor:
    values, where = node.tensor(x).clone(), node.tensor(index, "index").long()
    given, how = node.tensor(updates), node.get("reduction", "none")
    places = tuple(item.squeeze(-1) for item in torch.split(where, 1, -1))
    if how in ("none", "add"):
        return values.index_put(places, given, accumulate=how == "add")
    shape = values.shape
    strides = [math.prod(shape[dim + 1 :]) for dim in range(len(places))]
    flat = sum((a % size) * b for a, b, size in zip(places, strides, shape, strict=False))
    rest = math.prod(shape[len(places) :])
    assert isinstance(flat, Tensor)
    spread = (flat.unsqueeze(-1) + torch.arange(rest)).reshape(-1)
    values, given = values.reshape(-1), given.reshape(-1)
    return values.scatter_reduce(0, spread, given, _REDUCTIONS[how]).reshape(shape)


def _scatter_elements(node: NodeCall, x: Value, index: Value, updates: Value) -> Tensor:
    values, axis = node.tensor(x), node.get("axis", 0)
    where = node.tensor(index, "index").long() % values.shape[axis]
    given, how = node.tensor(updates), node.get("reduction", "none")
    if how == "none":
        return values.scatter(axis, where, given)
    return values.scatter_reduce(axis, where, given, _REDUCTIONS[how])


def _eye_like(node: NodeCall, x: Value) -> Tensor:
    values, kind = node.tensor(x), node.get("dtype")
    rows, columns = values.shape
    where = torch.arange(columns) - torch.arange(rows).unsqueeze(1) == node.get("k", 0)
    return where.to(values.dtype if kind is None else dtype_of(node, kind))


def _compress(node: NodeCall, x: Value, condition: Value) -> Tensor:
    values, axis = node.tensor(x), node.get("axis")
    places = torch.from_numpy(np.flatnonzero(node.array(condition, "condition")))
    if axis is None:
        values, axis = values.reshape(-1), 0
    return values.index_select(axis, places)


def _center_crop_pad(node: NodeCall, x: Value, shape: Value) -> Tensor:
    values = node.tensor(x)
    axes = node.get("axes") or list(range(values.dim()))
    for axis, size in zip(axes, sizes(node.array(shape, "shape")), strict=True):
        more = int(size) - values.shape[axis]
        if more < 0:
            values = values.narrow(axis, -more // 2, int(size))
        elif more > 0:
            dims = values.dim() - axis % values.dim() - 1
            values = F.pad(values, [0, 0] * dims + [more // 2, more - more // 2])
    return values


def _reverse_sequence(node: NodeCall, x: Value, lengths: Value) -> Tensor:
    values, time = node.tensor(x), node.get("time_axis", 0)
    batch, ends = node.get("batch_axis", 1), node.tensor(lengths).long()
    count = torch.arange(values.shape[time])
    ends = ends.unsqueeze(1)
    where = torch.where(count < ends, ends - 1 - count, count)
    where = where if batch < time else where.transpose(0, 1)
    where = where.reshape([*where.shape, *[1] * (values.dim() - 2)]).expand(values.shape)
    return values.gather(time, where)


def _tensor_scatter(node: NodeCall, past: Value, update: Value, places: Value = None) -> Tensor:
    values, given, axis = node.tensor(past), node.tensor(update), node.get("axis", -2)
    axis %= values.dim()
    start = torch.zeros(values.shape[0], dtype=torch.int64)
    start = start if places is None else node.tensor(places).long()
    where = start.unsqueeze(1) + torch.arange(given.shape[axis])
    if node.get("mode", "linear") == "circular":
        where = where % values.shape[axis]
    shape = [where.shape[0], *[1] * (axis - 1), where.shape[1], *[1] * (values.dim() - axis - 1)]
    return values.scatter(axis, where.reshape(shape).expand(given.shape), given)


def _grid_sample(node: NodeCall, x: Value, grid: Value) -> Tensor:
    mode = str(node.get("mode", "bilinear"))
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    padding = str(node.get("padding_mode", "zeros"))
    aligned = bool(node.get("align_corners", 0))
    return F.grid_sample(node.tensor(x), node.tensor(grid), mode, padding, aligned)


def _affine_grid(node: NodeCall, theta: Value, size: Value) -> Tensor:
    shape = [int(item) for item in sizes(node.array(size, "size"))]
    return F.affine_grid(node.tensor(theta), shape, bool(node.get("align_corners", 0)))


def _col2im(node: NodeCall, x: Value, image: Value, block: Value) -> Tensor:
    shape, kernel = (sizes(node.array(item, "shape")) for item in (image, block))
    values, rank = node.tensor(x), len(shape)
    strides, dilations = (node.get(word) or [1] * rank for word in ("strides", "dilations"))
    pads = node.get("pads") or [0] * 2 * rank
    if rank != 2:
        raise node.refuse(f"images of {rank} dimensions are not known; allowed are 2")
    whole = [size + pads[i] + pads[i + rank] for i, size in enumerate(shape)]
    fold: Any = F.fold
    found: Tensor = fold(values, whole, kernel, dilations, 0, strides)
    (top, left), (height, width) = pads[:2], shape
    return found[:, :, top : top + height, left : left + width]


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
