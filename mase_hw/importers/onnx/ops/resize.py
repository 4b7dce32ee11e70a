"""Resize: torch's functions where they are the same, else a constant matrix a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.onnx._values import Codes, Function, NodeCall, Value

Reals = npt.NDArray[np.float64]
_LINEAR = ("linear", "bilinear")
# Odd denominators that are tried, the power of two beside them, and what doubles may be off.
_MOST_PARTS, _DYADIC, _NEAR = 128, 16, 1e-9


def _resize(node: NodeCall, x: Value, *given: Value) -> Value:
    if isinstance(x, Codes):
        if node.get("mode", "nearest") != "nearest":
            raise node.refuse(f"mode {node.get('mode')!r} computes with codes; resize the reals")
        return replace(x, values=_resized(node, x.values, *given))
    return _resized(node, node.tensor(x), *given)


def _resized(node: NodeCall, values: Tensor, *given: Value) -> Tensor:
    axes, wanted, factors = _targets(node, values, given)
    mode, how = str(node.get("mode", "nearest")), "asymmetric"
    if node.type == "Resize" and node.version >= 11:
        how = str(node.get("coordinate_transformation_mode", "half_pixel"))
    antialias = bool(node.get("antialias", 0))
    space = list(range(2, values.dim()))
    if space and not antialias and all(axis in space for axis in axes):
        target = [dict(zip(axes, wanted, strict=True)).get(i, int(values.shape[i])) for i in space]
        scale = [dict(zip(axes, factors, strict=True)).get(i, 1.0) for i in space]
        whole = all(factor == int(factor) for factor in scale)
        name = _torch_mode(node, values.dim(), mode, how, whole)
        if name is not None:
            aligned = None if name == "nearest" else how == "align_corners"
            if whole:
                return F.interpolate(values, None, scale, name, aligned)
            return F.interpolate(values, target, None, name, aligned)
    for place, (axis, size, factor) in enumerate(zip(axes, wanted, factors, strict=True)):
        if size != values.shape[axis] or factor != 1 or how == "tf_crop_and_resize":
            region, before = _region(node, given, place, len(axes)), int(values.shape[axis])
            matrix, fill = _matrix(node, before, size, factor, mode, how, antialias, region)
            parts = _parts(matrix)
            moved = F.linear(values.movedim(axis, -1), torch.from_numpy(matrix * parts).to(values))
            moved = moved / parts if parts > 1 else moved
            if fill is not None:
                outside = node.get("extrapolation_value", 0.0)
                moved = torch.where(torch.from_numpy(fill).to(values.device), outside, moved)
            values = moved.movedim(-1, axis)
    return values


def _parts(matrix: Reals) -> int:
    """Odd common denominator of weights, whose numerators few bits hold.

    Where there is none it is the largest: before a division weights are constants between
    roundings, exact in as many bits as they take.
    """
    for parts in range(1, _MOST_PARTS, 2):
        whole = matrix * parts * _DYADIC
        if np.abs(whole - np.round(whole)).max() < _NEAR:
            return parts
    return _MOST_PARTS - 1


def _torch_mode(node: NodeCall, rank: int, mode: str, how: str, whole: bool) -> str | None:
    """Mode of torch's interpolation that computes the same, or None."""
    linear = {3: "linear", 4: "bilinear", 5: "trilinear"}.get(rank)
    if mode == "nearest" and linear:
        floors = whole or _rounding(node) == "floor"
        same = (how == "asymmetric" and floors) or (how == "half_pixel" and whole)
        return "nearest" if same else None
    same = mode in _LINEAR and how in ("half_pixel", "pytorch_half_pixel", "align_corners")
    return linear if same and whole else None


def _rounding(node: NodeCall) -> str:
    return str(node.get("nearest_mode", "round_prefer_floor" if node.version >= 11 else "floor"))


def _targets(
    node: NodeCall, values: Tensor, given: tuple[Value, ...]
) -> tuple[list[int], list[int], list[float]]:
    """Dimensions that are resized, their new sizes, and the factors."""
    if node.type == "Upsample" or len(given) == 1:
        scales, wanted = node.setting("scales", (None, *given), 1), None
    else:
        scales, wanted = (node.setting(name, given, i) for i, name in ((1, "scales"), (2, "sizes")))
    axes = [axis % values.dim() for axis in node.get("axes") or range(values.dim())]
    if axes[0] == 0 and not isinstance(values.shape[0], int):
        if scales and not wanted and scales[0] != 1:
            raise node.refuse("the batch cannot be resized")
        axes, scales, wanted = axes[1:], scales and scales[1:], wanted and wanted[1:]
    before = [int(values.shape[axis]) for axis in axes]
    if wanted:
        factors = [float(size) / own for size, own in zip(wanted, before, strict=True)]
        policy = node.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = (min if policy == "not_larger" else max)(factors)
            factors = [one] * len(axes)
            wanted = [math.floor(one * own + 0.5) for own in before]
        return axes, [int(size) for size in wanted], factors
    if not scales:
        raise node.refuse("neither sizes nor scales are given")
    factors = [float(scale) for scale in scales]
    return axes, [math.floor(own * f) for own, f in zip(before, factors, strict=True)], factors


def _region(
    node: NodeCall, given: tuple[Value, ...], place: int, count: int
) -> tuple[float, float]:
    if len(given) < 2 or given[0] is None:
        return 0.0, 1.0
    listed = node.array(given[0], "roi").reshape(-1).tolist()
    return (listed[place], listed[place + count]) if len(listed) == 2 * count else (0.0, 1.0)


def _matrix(
    node: NodeCall, size: int, target: int, factor: float, mode: str, how: str, antialias: bool,
    region: tuple[float, float],
) -> tuple[Reals, npt.NDArray[np.bool_] | None]:  # fmt: skip
    """Weights `[target, size]` of one dimension, and results that lie outside of a region."""
    places = _origins(node, size, target, factor, how, region)
    base = np.floor(places).astype(np.int64)
    ratio, matrix = places - base, np.zeros((target, size))
    shrink = min(factor, 1.0) if antialias else 1.0
    reach = {"nearest": 1}.get(mode, math.ceil((2 if mode == "cubic" else 1) / shrink))
    excludes, rounding = bool(node.get("exclude_outside", 0)), _rounding(node)
    if rounding not in _ROUNDINGS:
        raise node.refuse(f"nearest_mode {rounding!r} is not known")
    for offset in range(1 - reach, reach + 1):
        if mode == "nearest":
            weights = (_ROUNDINGS[rounding](places) == base + offset).astype(float)
        elif mode in _LINEAR:
            weights = np.clip(1 - np.abs((offset - ratio) * shrink), 0, 1)
        elif mode == "cubic":
            weights = _cubic((offset - ratio) * shrink, node.get("cubic_coeff_a", -0.75))
        else:
            raise node.refuse(f"mode {mode!r} is not known")
        taken = base + offset
        if excludes and mode != "nearest":
            weights = np.where((taken < 0) | (taken >= size), 0, weights)
        np.add.at(matrix, (np.arange(target), np.clip(taken, 0, size - 1)), weights)
    matrix /= matrix.sum(1, keepdims=True)
    if how != "tf_crop_and_resize":
        return matrix, None
    return matrix, (places < 0) | (places > size - 1)


def _origins(
    node: NodeCall, size: int, target: int, factor: float, how: str, region: tuple[float, float]
) -> Reals:
    steps, (start, end) = np.arange(target, dtype=np.float64), region
    if how == "asymmetric":
        return steps / factor
    if how == "align_corners":
        return steps * (size - 1) / (size * factor - 1) if target > 1 else steps * 0
    if how == "tf_half_pixel_for_nn":
        return (steps + 0.5) / factor
    if how == "tf_crop_and_resize":
        if target == 1:
            return np.array([0.5 * (start + end) * (size - 1)])
        return start * (size - 1) + steps * (end - start) * (size - 1) / (target - 1)
    half = (steps + 0.5) / factor - 0.5
    if how in ("half_pixel", "pytorch_half_pixel"):
        return half if target > 1 or how == "half_pixel" else steps * 0
    if how == "half_pixel_symmetric":
        return size / 2 * (1 - target / (factor * size)) + half
    raise node.refuse(f"coordinates {how!r} are not known")


# Roundings of places to those of elements, by `nearest_mode`.
_ROUNDINGS: dict[str, Callable[[Reals], Reals]] = {
    "round_prefer_floor": lambda places: np.ceil(places - 0.5),
    "round_prefer_ceil": lambda places: np.floor(places + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _cubic(distance: Reals, a: float) -> Reals:
    x = np.abs(distance)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


OPERATORS: dict[str, Function] = {"Resize": _resize, "Upsample": _resize}
