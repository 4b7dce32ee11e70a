"""What moves elements, and arithmetic on sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import (
    MAX_ELEMENTS,
    Codes,
    Constant,
    Floats,
    Function,
    Levels,
    NodeCall,
    Value,
    sizes,
)


def _moving(
    function: Callable[..., Any], sized: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Also move sizes, rounded constants, and codes as the reals for which they stand."""

    def compute(node: NodeCall, x: Value, *others: Value) -> Any:
        if isinstance(x, Constant) and x.tensor is None and x.levels is not None:
            levels = _moved_levels(x, lambda marks: function(node, marks, *others))
            if levels is not None:
                moved = function(node, torch.from_numpy(np.array(x.array)), *others)
                return Constant(moved.numpy(), None, levels)
        if isinstance(x, Constant) and x.tensor is None and sized is not None:
            return Constant(np.asarray(sized(node, x.array, *others)))
        return function(node, node.tensor(x), *others)

    return _keeping(compute)


def _moved_levels(x: Constant, moved: Callable[[Tensor], Tensor]) -> Levels | Floats | None:
    """Return levels along the dimension that channels move to; None where they are mixed."""
    levels, shape = x.levels, x.array.shape
    if not isinstance(levels, Levels) or len(levels.scale) == 1:
        return levels

    def marks(shape: Sequence[int], axis: int) -> Tensor:
        lines = torch.arange(shape[axis]).reshape(-1, *[1] * (len(shape) - 1 - axis))
        return lines.expand(tuple(shape)).float()

    wanted = moved(marks(shape, levels.axis % len(shape)))
    for axis in range(wanted.dim()):
        if torch.equal(marks(wanted.shape, axis), wanted):
            return replace(levels, axis=axis)
    return None


def _keeping(function: Callable[..., Any]) -> Callable[..., Any]:
    """Also move codes, as the reals for which they stand."""

    def compute(node: NodeCall, x: Value, *others: Value) -> Any:
        if not isinstance(x, Codes):
            return function(node, x, *others)
        if x.levels is not None and len(x.levels.scale) > 1:
            raise node.refuse("codes with a scale for each channel are moved; move the reals")
        moved = function(node, x.values, *others)
        if isinstance(moved, Tensor):
            return replace(x, values=moved)
        return [replace(x, values=item) for item in moved]

    return compute


def _reshape(node: NodeCall, x: Tensor, shape: Value) -> Tensor:
    given = sizes(node.array(shape, "shape"))
    if node.get("allowzero", 0):
        return x.reshape(given)
    kept = [isinstance(size, int) and size == 0 for size in given]
    if kept[:-1] and all(kept[:-1]) and given[-1] == -1 and len(given) <= x.dim():
        return x.flatten(len(given) - 1)
    return x.reshape([x.shape[i] if kept[i] else size for i, size in enumerate(given)])


def _reshape_sizes(node: NodeCall, x: Any, shape: Value) -> Any:
    given = [int(size) for size in sizes(node.array(shape, "shape"))]
    keeps = not node.get("allowzero", 0)
    return x.reshape([x.shape[i] if keeps and size == 0 else size for i, size in enumerate(given)])


def _flatten(node: NodeCall, x: Tensor) -> Tensor:
    axis = node.get("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    if axis == 0:
        return x.reshape(1, -1)
    return x.flatten(1) if axis == 1 else x.flatten(axis).flatten(0, axis - 1)


def _squeeze(node: NodeCall, x: Tensor, axes: Value = None) -> Tensor:
    given = node.setting("axes", (None, axes), 1)
    if given is None:
        given = [dim for dim, size in enumerate(x.shape) if isinstance(size, int) and size == 1]
    wrong = [axis for axis in given if x.shape[axis] != 1]
    if wrong:
        raise node.refuse(f"dimension {wrong[0]} of {list(x.shape)} is not 1")
    dims = tuple(int(axis) for axis in given)
    return torch.squeeze(x, dims[0]) if len(dims) == 1 else torch.squeeze(x, dims)


def _squeeze_sizes(node: NodeCall, x: Any, axes: Value = None) -> Any:
    given = node.setting("axes", (None, axes), 1)
    return np.squeeze(x, None if given is None else tuple(given))


def _unsqueeze(node: NodeCall, x: Tensor, axes: Value = None) -> Tensor:
    given = node.setting("axes", (None, axes), 1)
    rank = x.dim() + len(given)
    for axis in sorted(int(axis) % rank for axis in given):
        x = x.unsqueeze(axis)
    return x


def _unsqueeze_sizes(node: NodeCall, x: Any, axes: Value = None) -> Any:
    return np.expand_dims(x, tuple(node.setting("axes", (None, axes), 1)))


def _concat(node: NodeCall, *values: Value) -> Any:
    axis = node.get("axis")
    constants = [item for item in values if isinstance(item, Constant)]
    if len(constants) == len(values) and any(item.tensor is None for item in constants):
        # Sizes, among which a file may hold numbers of its own.
        parts = [node.array(item, "operand") for item in values]
        return Constant(np.concatenate(parts, axis))
    if any(isinstance(item, Codes) for item in values):
        codes = [item for item in values if isinstance(item, Codes)]
        if len(codes) != len(values) or len({item.levels for item in codes}) > 1:
            raise node.refuse("codes of several scales are joined; join the reals")
        return replace(codes[0], values=torch.cat([item.values for item in codes], axis))
    return torch.cat([node.tensor(item) for item in values], axis)


def _split(node: NodeCall, x: Value, split: Value = None) -> Any:
    values, axis = node.tensor(x), node.get("axis", 0)
    given = node.setting("split", (None, split), 1)
    if given is None:
        count = node.get("num_outputs", node.results)
        given = [-(-values.shape[axis] // count)] * count
    if set(given) == {1}:
        return [item.unsqueeze(axis) for item in torch.unbind(values, axis)]
    return torch.split(values, [int(size) for size in given], axis)


def _slices(node: NodeCall, rank: int, given: tuple[Value, ...]) -> list[tuple[int, Any, Any, int]]:
    """Return (dimension, first, end, step)."""
    if "starts" in node.attributes:
        starts, ends = node.get("starts"), node.get("ends")
        axes, steps = node.get("axes"), None
    else:
        starts, ends = (sizes(node.array(given[i], "range")) for i in (0, 1))
        axes, steps = (
            sizes(node.array(given[i], "range")) if len(given) > i and given[i] else None
            for i in (2, 3)
        )
    axes = list(range(len(starts))) if axes is None else [axis % rank for axis in axes]
    return list(zip(axes, starts, ends, steps or [1] * len(starts), strict=True))


def _slice(node: NodeCall, x: Tensor, *given: Value) -> Tensor:
    for dim, start, end, step in _slices(node, x.dim(), given):
        if step < 0:
            size = int(x.shape[dim])
            listed = range(*slice(start, end if end > -size - 1 else None, step).indices(size))
            x = torch.index_select(x, dim, torch.tensor(list(listed), dtype=torch.int64))
        else:
            x = torch.ops.aten.slice.Tensor(x, dim, start, end, step)
    return x


def _slice_sizes(node: NodeCall, x: Any, *given: Value) -> Any:
    index: list[Any] = [slice(None)] * x.ndim
    for dim, start, end, step in _slices(node, x.ndim, given):
        index[dim] = slice(start, end, step)
    return x[tuple(index)]


def _gather(node: NodeCall, x: Value, index: Value) -> Any:
    axis = node.get("axis", 0)
    if isinstance(x, Constant) and isinstance(index, Constant) and x.tensor is None:
        taken = np.take(x.array, index.array.astype(np.int64), axis)
        return Constant(np.asarray(taken, x.array.dtype))
    values = node.tensor(x)
    axis %= values.dim()
    if isinstance(index, Constant):
        places = np.where(index.array < 0, index.array + int(values.shape[axis]), index.array)
        if places.ndim == 0:
            return torch.select(values, axis, int(places))
        shape, listed = places.shape, torch.from_numpy(places.reshape(-1).astype("i8"))
    else:
        where = node.tensor(index, "index")
        if axis == 0 and values.dim() == 2:
            return F.embedding(where, values)
        shape, listed = where.shape, where.reshape(-1)
    chosen = torch.index_select(values, axis, listed)
    return chosen.reshape(*values.shape[:axis], *shape, *values.shape[axis + 1 :])


def _gather_elements(node: NodeCall, x: Value, index: Value) -> Tensor:
    values, axis = node.tensor(x), node.get("axis", 0)
    return torch.gather(values, axis, node.tensor(index, "index") % values.shape[axis])


def _expand(node: NodeCall, x: Tensor, shape: Value) -> Tensor:
    given = sizes(node.array(shape, "shape"))
    rank = max(len(given), x.dim())
    own, given = [1] * (rank - x.dim()) + list(x.shape), [1] * (rank - len(given)) + given
    both = [a if isinstance(b, int) and b == 1 else b for a, b in zip(own, given, strict=True)]
    return x.expand(both)


def _pad(node: NodeCall, x: Value, *given: Value) -> Value:
    fill = node.setting("value", (None, *given), 2, 0.0)
    fill = float(fill[0] if isinstance(fill, list) else fill)
    if not isinstance(x, Codes):
        return _padded(node, node.tensor(x), fill, *given)
    if x.levels is None or len(x.levels.scale) > 1:
        raise node.refuse("codes without one scale are padded; pad the reals")
    # The fill is a code, too.
    fill = (fill - x.levels.zero_point[0]) * x.levels.scale[0]
    return replace(x, values=_padded(node, x.values, fill, *given))


def _padded(node: NodeCall, x: Tensor, fill: float, *given: Value) -> Tensor:
    pads = node.setting("pads", (None, *given), 1)
    rank, axes = x.dim(), list(range(x.dim()))
    if len(given) > 2 and given[2] is not None:
        axes = [int(axis) % rank for axis in sizes(node.array(given[2], "axes"))]
    sides = {axis: (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    mode = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}.get(
        node.get("mode", "constant"), "constant"
    )
    touched = [axis for axis, (before, behind) in sides.items() if before or behind]
    if not touched:
        return x
    order = reversed(range(min(touched), rank))
    listed = [side for axis in order for side in sides.get(axis, (0, 0))]
    return F.pad(x, listed, mode, fill if mode == "constant" else None)


def _blocks(node: NodeCall, x: Tensor) -> Tensor:
    size, (count, channels, height, width) = node.get("blocksize"), x.shape
    crd, opens = node.get("mode", "DCR") == "CRD", node.type == "SpaceToDepth"
    if crd:
        return (F.pixel_unshuffle if opens else F.pixel_shuffle)(x, size)
    if opens:
        parts = x.reshape(count, channels, height // size, size, width // size, size)
        moved = parts.permute(0, 3, 5, 1, 2, 4)
        return moved.reshape(count, channels * size * size, height // size, width // size)
    parts = x.reshape(count, size, size, channels // size**2, height, width)
    moved = parts.permute(0, 3, 4, 1, 5, 2)
    return moved.reshape(count, channels // size**2, height * size, width * size)


def _shape(node: NodeCall, x: Value) -> Constant:
    whole = list(node_shape(node, x))[node.get("start", 0) : node.get("end")]
    plain = all(type(size) is int for size in whole)
    array = np.empty(len(whole), dtype=np.int64 if plain else object)
    array[:] = whole
    return Constant(array)


def node_shape(node: NodeCall, x: Value) -> Any:
    """Return the sizes of an operand."""
    if isinstance(x, Constant):
        return x.array.shape
    return (x.values if isinstance(x, Codes) else node.tensor(x)).shape


def _size(node: NodeCall, x: Value) -> Constant:
    total: Any = math.prod(node_shape(node, x))
    return Constant(np.array(total, dtype=np.int64 if type(total) is int else object))


def _constant(node: NodeCall) -> Constant:
    for key in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if key in node.attributes:
            dtype = {"value_f": np.float32, "value_i": np.int64}.get(key[:7])
            return Constant(np.asarray(node.attributes[key], dtype))
    raise node.refuse(f"a constant of {', '.join(node.attributes)} is not known")


def _filled(node: NodeCall, shape: Value) -> Constant | Tensor:
    given = sizes(node.array(shape, "shape"))
    value = node.get("value")
    filling = np.zeros(1, np.float32) if value is None else value.reshape(-1)[:1]
    if not all(isinstance(size, int) for size in given):
        return torch.from_numpy(np.array(filling)).expand(given)
    elements = math.prod(given)
    if not 0 <= elements <= MAX_ELEMENTS:
        raise node.refuse(f"its result {given} has {elements} elements; allowed: {MAX_ELEMENTS}")
    return Constant(np.full(given, filling[0], dtype=filling.dtype))


def _range(node: NodeCall, start: Value, end: Value, step: Value) -> Constant:
    first, last, by = (
        node.array(value, "end").reshape(-1)[0].item() for value in (start, end, step)
    )
    if by == 0 or abs((last - first) / by) > MAX_ELEMENTS:
        raise node.refuse(f"{first} to {last} in steps of {by} has more than {MAX_ELEMENTS} places")
    return Constant(np.arange(first, last, by, dtype=node.array(start, "start").dtype))


def _trilu(node: NodeCall, x: Value, k: Value = None) -> Tensor:
    place = 0 if k is None else node.integer(k, "k")
    function = torch.triu if node.get("upper", 1) else torch.tril
    return function(node.tensor(x), place)


def _identity(node: NodeCall, x: Value, *others: Value) -> Value:
    trains = others[1] if len(others) > 1 else None
    if trains is not None and bool(node.array(trains, "training_mode").any()):
        raise node.refuse("it trains: elements are dropped by chance")
    if node.results > 1:
        raise node.refuse("its mask is not known")
    return x


OPERATORS: dict[str, Function] = {
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "DepthToSpace": _moving(_blocks),
    "Dropout": _identity,
    "Expand": _moving(_expand),
    "Flatten": _moving(_flatten),
    "Gather": _keeping(_gather),
    "GatherElements": _keeping(_gather_elements),
    "Identity": _identity,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _moving(_reshape, _reshape_sizes),
    "Shape": _shape,
    "Size": _size,
    "Slice": _moving(_slice, _slice_sizes),
    "SpaceToDepth": _moving(_blocks),
    "Split": _keeping(_split),
    "Squeeze": _moving(_squeeze, _squeeze_sizes),
    "Tile": _moving(lambda node, x, repeats: x.repeat(sizes(node.array(repeats, "repeats")))),
    "Transpose": _moving(lambda node, x: x.permute(node.get("perm") or list(range(x.dim()))[::-1])),
    "Trilu": _trilu,
    "Unsqueeze": _moving(_unsqueeze, _unsqueeze_sizes),
}
