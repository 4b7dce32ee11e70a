"""Places that are computed or listed, and grids of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Constant, Function, NodeCall, Value, sizes


def _one_hot(node: NodeCall, index: Value, depth: Value, values: Value) -> Tensor:
    axis, count = node.get("axis", -1), int(node.array(depth, "depth").reshape(-1)[0])
    off, on = node.tensor(values)
    where = node.tensor(index, "index").long()
    where = torch.where(where < 0, where + count, where)
    rank = where.dim() + 1
    places = torch.arange(count).reshape([-1] + [1] * (rank - 1 - axis % rank))
    return torch.where(where.unsqueeze(axis % rank) == places, on, off)


def _hardmax(node: NodeCall, x: Value) -> Tensor:
    values, axis = node.tensor(x), node.get("axis", -1 if node.version >= 13 else 1)
    shape = values.shape
    if node.version < 13:
        values, axis = values.flatten(axis) if axis else values.reshape(1, -1), -1
    largest = values.argmax(axis, keepdim=True)
    behind = values.dim() - axis % values.dim() - 1
    places = torch.arange(values.shape[axis]).reshape([-1] + [1] * behind)
    return (largest == places).to(values.dtype).reshape(shape)


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
    kind = {"mul": "prod", "max": "amax", "min": "amin"}[how]
    return values.reshape(-1).scatter_reduce(0, spread, given.reshape(-1), kind).reshape(shape)


def _scatter_elements(node: NodeCall, x: Value, index: Value, updates: Value) -> Tensor:
    values, axis = node.tensor(x), node.get("axis", 0)
    where = node.tensor(index, "index").long() % values.shape[axis]
    given, how = node.tensor(updates), node.get("reduction", "none")
    if how == "none":
        return values.scatter(axis, where, given)
    kind = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[how]
    return values.scatter_reduce(axis, where, given, kind)


def _eye_like(node: NodeCall, x: Value) -> Tensor:
    from onnx import helper

    values, kind = node.tensor(x), node.get("dtype")
    rows, columns = values.shape
    below = torch.arange(columns) - torch.arange(rows).unsqueeze(1)
    where: Tensor = below == node.get("k", 0)
    if kind is None:
        return where.to(values.dtype)
    return where.to(torch.from_numpy(np.zeros(0, helper.tensor_dtype_to_np_dtype(kind))).dtype)


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


def _cumulative_product(node: NodeCall, x: Value, axis: Value) -> Tensor:
    values, dim = node.tensor(x), int(node.array(axis, "axis").reshape(-1)[0])
    values = values.flip(dim) if node.get("reverse", 0) else values
    found = values.cumprod(dim)
    if node.get("exclusive", 0):
        ones = torch.ones_like(values.narrow(dim, 0, 1))
        found = torch.cat([ones, found.narrow(dim, 0, values.shape[dim] - 1)], dim)
    return found.flip(dim) if node.get("reverse", 0) else found


def _grid_sample(node: NodeCall, x: Value, grid: Value) -> Tensor:
    mode = str(node.get("mode", "linear" if node.version >= 20 else "bilinear"))
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


def _lp_pool(node: NodeCall, x: Value) -> Tensor:
    values, order = node.tensor(x), node.get("p", 2)
    kernel = node.get("kernel_shape")
    rank = len(kernel)
    strides = node.get("strides") or [1] * rank
    if any(size != 1 for size in node.get("dilations") or [1]) or node.get("ceil_mode", 0):
        raise node.refuse("dilations and ceil_mode are not known")
    pads = node.get("pads") or [0] * 2 * rank
    auto = node.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        spaces = list(zip(values.shape[2:], kernel, strides, strict=True))
        more = [max(0, (-(-s // by) - 1) * by + k - s) for s, k, by in spaces]
        less = [m // 2 if auto == "SAME_UPPER" else m - m // 2 for m in more]
        pads = [*less, *(m - b for m, b in zip(more, less, strict=True))]
    listed = [side for i in reversed(range(rank)) for side in (pads[i], pads[i + rank])]
    powers = F.pad(values.abs() ** order, listed)
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
    pooled: Tensor = pool(powers, kernel, strides)
    return torch.pow(pooled * math.prod(kernel), 1 / order)


def _determinant(node: NodeCall, x: Value) -> Tensor:
    found: Tensor = torch.linalg.det(node.tensor(x))
    return found


def _window(node: NodeCall, size: Value, weights: tuple[float, ...]) -> Constant:
    count = int(node.array(size, "size").reshape(-1)[0])
    span = count if node.get("periodic", 1) else max(count - 1, 1)
    steps = 2 * np.pi * np.arange(count) / span
    total = sum((-1) ** k * a * np.cos(k * steps) for k, a in enumerate(weights))
    if node.get("output_datatype", 1) not in (1, 11):
        raise node.refuse("windows are float32 or float64")
    return Constant(np.asarray(total, np.float32 if node.get("output_datatype", 1) == 1 else float))


def _windowed(*weights: float) -> Function:
    def compute(node: NodeCall, size: Value) -> Constant:
        return _window(node, size, weights)

    return compute


OPERATORS: dict[str, Function] = {
    "AffineGrid": _affine_grid,
    "BlackmanWindow": _windowed(0.42, 0.5, 0.08),
    "CenterCropPad": _center_crop_pad,
    "Col2Im": _col2im,
    "Compress": _compress,
    "CumProd": _cumulative_product,
    "Det": _determinant,
    "EyeLike": _eye_like,
    "GatherND": _gather_nd,
    "GridSample": _grid_sample,
    "HammingWindow": _windowed(25 / 46, 21 / 46),
    "HannWindow": _windowed(0.5, 0.5),
    "Hardmax": _hardmax,
    "LpPool": _lp_pool,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
}
