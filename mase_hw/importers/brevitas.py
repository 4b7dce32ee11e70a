"""Modules of Brevitas: their own scales, widths and roundings, as one operator each.

A quantiser of Brevitas computes its scale in real numbers on the way. It is run once as it is.
While the model is captured it rounds to the levels that it had, which are constants of a trained
model in evaluation mode.

Source: Pappalardo, "Xilinx/brevitas", doi:10.5281/zenodo.3333552.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from mase_hw.errors import CaptureError
from mase_hw.ops.infrastructure.fake_quantize import moved_ties, rounded

ROUNDINGS = {
    "RoundSte": "nearest_even",
    "FloorSte": "floor",
    "RoundToZeroSte": "toward_zero",
}
# Quantisers that give `(values, scale, zero point, bit width)`, and those of few values.
INTEGERS = frozenset({"RescalingIntQuant", "PrescaledRestrictIntQuant", "TruncIntQuant",
                      "PrescaledRestrictIntQuantWithInputBitWidth"})  # fmt: skip
SIGNS, TERNARY = frozenset({"BinaryQuant", "ClampedBinaryQuant"}), frozenset({"TernaryQuant"})
# Those whose codes are computed in two scales: of parameters, whose values are constant.
DECOUPLED = frozenset({"DecoupledRescalingIntQuant", "DecoupledRescalingIntQuantWithInput"})
# What they are made of.
_PARTS = frozenset({"IntQuant", "DecoupledIntQuant", "DelayWrapper", "_NoDelay", "_DelayQuant"})
_MODULES = "brevitas."

Found = dict[str, tuple[Tensor, ...]]


def without_scales(outputs: object) -> object:
    """Return a model's outputs with the values of Brevitas' tensors in their place."""
    if "brevitas" not in sys.modules:
        return outputs
    from brevitas.quant_tensor import QuantTensor

    return tree_map(
        lambda leaf: leaf.value if isinstance(leaf, QuantTensor) else leaf, outputs,
        is_leaf=lambda leaf: isinstance(leaf, QuantTensor),
    )  # fmt: skip


@contextlib.contextmanager
def observed(model: nn.Module) -> Iterator[Found]:
    """Note what the quantisers of a model give while it runs.

    Yields:
        Their results by the path of the module; of a truncation sign, scale and bits of its sums.
    """
    found: Found = {}
    hooks = []

    def noting(path: str) -> Callable[..., None]:
        def note(module: nn.Module, given: Any, result: Any) -> None:
            if isinstance(module, nn.Upsample):
                noted = given[0] if isinstance(given[0], tuple) else ()
            else:
                noted = (*result, given[4], given[1], given[3]) if _truncates(module) else result
            known = [torch.as_tensor(item) for item in noted if isinstance(item, Tensor | bool)]
            if path in found:
                # Values of several tensors, as of gates, which share a quantiser.
                known[0] = torch.empty(0)
            found[path] = tuple(item.detach().clone() for item in known)

        return note

    for path, module in _quantisers(model):
        hooks.append(module.register_forward_hook(noting(path)))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def as_observed(model: nn.Module, found: Found, *, plain: bool = False) -> Iterator[None]:
    """Let the quantisers of a model round to the levels that were noted.

    Args:
        model: the model.
        found: what was noted.
        plain: whether layers give each other tensors alone, without scales, which Brevitas compares
            while it runs.

    Raises:
        CaptureError: for levels that are none of ours, naming the module.
    """
    changed: list[tuple[nn.Module, str, Any]] = []

    def change(module: nn.Module, name: str, value: object) -> None:
        changed.append((module, name, module.__dict__.get(name)))
        module.__dict__[name] = value

    constant = {id(item.tensor_quant) for item in model.modules() if _is_of_parameters(item)}
    try:
        for path, module in model.named_modules() if found else ():
            _check_static(path, module)
        for path, module in _quantisers(model):
            if path in found and not isinstance(module, nn.Upsample):
                rounding = _rounding(path, module, found[path], constant=id(module) in constant)
                change(module, "forward", rounding)
        for path, module in model.named_modules() if plain and found else ():
            for name in ("return_quant_tensor", "skip_create_quant_tensor"):
                if hasattr(module, name):
                    change(module, name, name.startswith("skip"))
            if forward := _without_scales(path, module, found):
                change(module, "forward", forward)
        yield
    finally:
        for module, name, own in reversed(changed):
            if own is None:
                del module.__dict__[name]
            else:
                module.__dict__[name] = own


def _check_static(path: str, module: nn.Module) -> None:
    """Refuse scales that are of groups, or of the data."""
    kind = type(module).__name__
    if kind.startswith("Groupwise") and getattr(module, "is_quant_enabled", False):
        raise CaptureError(
            f"{path} has scales of values in groups, as MX does; allowed are one scale, or one for "
            "each channel: give the float model, and the format mxint or mxfp8 to quantize"
        )
    if "Dynamic" in kind and type(module).__module__.startswith(_MODULES):
        raise CaptureError(
            f"{path} is a {kind}: it finds a scale for each input as it runs; allowed are scales "
            "that are learned or observed"
        )


def _truncates(module: nn.Module) -> bool:
    return type(module).__name__ == "TruncIntQuant"


def _is_of_parameters(module: nn.Module) -> bool:
    return hasattr(type(module), "tracked_parameter_list") and hasattr(module, "tensor_quant")


def _without_scales(path: str, module: nn.Module, found: Found) -> Callable[..., object] | None:
    """Return the forward of a module that asks its input for a scale; None for others."""
    given: Any = module
    if not type(module).__module__.startswith(_MODULES):
        return None
    if _is_of_parameters(module):
        return lambda x, *others: given.tensor_quant(x)[0] if given.is_quant_enabled else x
    if not isinstance(module, nn.Upsample) and not hasattr(module, "trunc_quant"):
        return None
    own: Any = next(kind for kind in type(module).__mro__ if kind.__module__.startswith("torch.nn"))
    forward = own.forward
    if isinstance(module, nn.Upsample):
        if module.mode == "nearest":
            return lambda x: forward(given, x)
        levels = _levels(path, found[path][1:4], bool(found[path][4]), mode="nearest_even")
        return lambda x: rounded(forward(given, x), *levels)
    if not given.is_trunc_quant_enabled:
        return lambda x: forward(given, x)
    return lambda x: given.trunc_quant.tensor_quant(forward(given, x))[0]


def _quantisers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the quantisers of a model by their paths; none where Brevitas is not in use."""
    if "brevitas" not in sys.modules:
        return
    for path, module in model.named_modules():
        kind = type(module)
        rounds = kind.__module__.startswith("brevitas.core.quant") and kind.__name__ not in _PARTS
        if rounds or (kind.__module__.startswith(_MODULES) and isinstance(module, nn.Upsample)):
            yield path, module


def _rounding(
    path: str, module: nn.Module, found: tuple[Tensor, ...], *, constant: bool
) -> Callable[..., object]:
    """Return what a quantiser does with the levels that it had."""
    kind, (noted, scale) = type(module).__name__, found[:2]
    if kind not in INTEGERS | SIGNS | TERNARY | (
        DECOUPLED if constant and noted.numel() else frozenset()
    ):
        raise CaptureError(
            f"{path} rounds by {kind} of Brevitas; allowed are integers with a scale for a tensor "
            "or a channel: IntQuant, BinaryQuant, TernaryQuant, TruncIntQuant"
        )
    if kind in SIGNS | TERNARY:
        levels = _levels(path, found[1:4], ends=(-1, 1))
    else:
        inner: Any = next(
            (item for item in module.modules() if hasattr(item, "float_to_int_impl")), module
        )
        mode = type(inner.float_to_int_impl).__name__
        if mode not in ROUNDINGS and not (constant and noted.numel()):
            raise CaptureError(f"{path}: it rounds by {mode}; allowed are {', '.join(ROUNDINGS)}")
        signed = bool(found[4]) if _truncates(module) else bool(inner.signed)
        # Values of a parameter that have been rounded are codes of any mode.
        held = constant and bool(noted.numel())
        chosen = None if held else ROUNDINGS[mode]
        if _truncates(module):
            return _truncating(path, found, bool(inner.narrow_range), ROUNDINGS[mode])
        levels = _levels(path, found[1:4], signed, bool(inner.narrow_range), chosen)

    def forward(x: Tensor, *others: object, **named: object) -> tuple[Tensor, ...]:
        if constant and noted.numel():
            x = noted
        elif kind in SIGNS and not constant and scale.numel() == 1:
            bounds = torch.full([1] * (x.dim() + 1), -math.ulp(0.0), dtype=torch.float64)
            signs = torch.ones([1] * x.dim(), dtype=torch.float64)
            size = float(scale)
            x = torch.ops.mase.thresholds(x, bounds, signs, -size, 2 * size)
        elif kind in SIGNS:
            x = torch.where(x >= 0, 1.0, -1.0) * scale
        elif kind in TERNARY:
            near = x.abs() > getattr(module, "threshold", 0.5) * scale
            x = near.to(x.dtype) * torch.sign(x) * scale
        return (rounded(x, *levels), *found[1:])

    return forward


def _truncating(
    path: str, found: tuple[Tensor, ...], narrow: bool, mode: str
) -> Callable[..., object]:
    """Return what divides sums, which are whole steps of their scale, by a whole number."""
    _, scale, point, _, signed, unit, bits = found
    factor = float(scale.max() / unit.max())
    if bool(point.any()) or unit.numel() > 1 or factor != round(factor):
        raise CaptureError(f"{path}: it truncates around a zero point, or by {factor}")
    half = 0.0
    if mode == "floor":
        # The nearest code of half a step less, and half a unit more, which is never a tie.
        mode, half = "nearest_even", float(unit) * (factor - 1) / 2
    levels = _levels(path, found[1:4], bool(signed), narrow, mode)
    exact = _levels(path, (unit, point, bits), bool(signed))

    def forward(x: Tensor, *given: object) -> tuple[Tensor, ...]:
        sums = rounded(x, *exact)
        return (rounded(sums - half if half else sums, *levels), *found[1:4])

    return forward


def _levels(
    path: str, found: tuple[Tensor, ...], signed: bool = True, narrow: bool = False,
    mode: str | None = None, ends: tuple[int, int] | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the arguments of `rounded` for a scale, a zero point and bits."""
    scale, point, width = found
    scales = [float(item) for item in scale.reshape(-1)]
    axes = [dim for dim, size in enumerate(scale.shape) if size > 1]
    if len(axes) > 1:
        raise CaptureError(
            f"{path}: its scales {list(scale.shape)} are of several dimensions; allowed are one, "
            "or one for each channel"
        )
    points = [round(float(item)) for item in point.expand(scale.shape).reshape(-1)]
    size = 1 << int(width.max())
    if ends is None:
        ends = (-size // 2 + narrow, size // 2 - 1) if signed else (0, size - 1 - narrow)
    if mode == "nearest_even" and (why := moved_ties(scales, points)):
        raise CaptureError(f"{path}: {why}")
    return scales, points, axes[0] if axes else 0, *ends, mode or "nearest_even"
