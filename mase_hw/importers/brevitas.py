"""Modules of Brevitas: their own scales, widths and roundings, as one operator each.

A quantiser of Brevitas computes its scale in real numbers on the way. It is run once as it is.
While the model is captured it rounds to the levels that it had, which are constants of a trained
model in evaluation mode.

Source: Pappalardo, "Xilinx/brevitas", doi:10.5281/zenodo.3333552.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.errors import CaptureError
from mase_hw.ops.infrastructure.fake_quantize import moved_ties, rounded

ROUNDINGS = {
    "RoundSte": "nearest_even",
    "FloorSte": "floor",
    "RoundToZeroSte": "toward_zero",
}
# Quantisers that give `(values, scale, zero point, bit width)`.
INTEGERS = frozenset({"RescalingIntQuant", "PrescaledRestrictIntQuant",
                      "PrescaledRestrictIntQuantWithInputBitWidth"})  # fmt: skip
SIGNS, TERNARY = frozenset({"BinaryQuant", "ClampedBinaryQuant"}), frozenset({"TernaryQuant"})

Found = dict[str, tuple[Tensor, ...]]


@contextlib.contextmanager
def observed(model: nn.Module) -> Iterator[Found]:
    """Note what the quantisers of a model give while it runs.

    Yields:
        Their results but the first, by the path of the module.
    """
    found: Found = {}
    hooks = []

    def noting(path: str) -> Callable[..., None]:
        def note(module: nn.Module, given: Any, result: Any) -> None:
            found[path] = tuple(item.detach().clone() for item in result[1:])

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

    try:
        for path, module in _quantisers(model):
            if path in found:
                change(module, "forward", _rounding(path, module, found[path]))
        for module in model.modules() if plain and found else ():
            if getattr(module, "return_quant_tensor", False) is True:
                change(module, "return_quant_tensor", False)
            if getattr(module, "requires_input_scale", False) is True:
                # Asked for where no scale comes with the input; the levels are known.
                change(module, "scale", lambda: torch.ones(1))
        yield
    finally:
        for module, name, own in reversed(changed):
            if own is None:
                del module.__dict__[name]
            else:
                module.__dict__[name] = own


def _quantisers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the quantisers of a model by their paths; none where Brevitas is not in use."""
    if "brevitas" not in sys.modules:
        return
    for path, module in model.named_modules():
        if type(module).__module__.startswith("brevitas.core.quant") and type(module).__name__ in (
            INTEGERS | SIGNS | TERNARY
        ):
            yield path, module


def _rounding(path: str, module: nn.Module, found: tuple[Tensor, ...]) -> Callable[..., object]:
    """Return what a quantiser does with the levels that it had."""
    scale, point, width = found[:3]
    scales = [float(item) for item in scale.reshape(-1)]
    axes = [dim for dim, size in enumerate(scale.shape) if size > 1]
    if len(axes) > 1:
        raise CaptureError(
            f"{path}: its scales {list(scale.shape)} are of several dimensions; allowed are one, "
            "or one for each channel"
        )
    points = [round(float(item)) for item in point.expand(scale.shape).reshape(-1)]
    low, high, mode = _ends(path, module, int(width.max()))
    if mode == "nearest_even" and (why := moved_ties(scales, points)):
        raise CaptureError(f"{path}: {why}")
    kind = type(module).__name__

    def forward(x: Tensor, *given: object, **named: object) -> tuple[Tensor, ...]:
        if kind in SIGNS:
            x = torch.where(x >= 0, 1.0, -1.0) * scale
        elif kind in TERNARY:
            near = x.abs() > getattr(module, "threshold", 0.5) * scale
            x = near.to(x.dtype) * torch.sign(x) * scale
        values = rounded(x, scales, points, axes[0] if axes else 0, low, high, mode)
        return (values, *found)

    return forward


def _ends(path: str, module: nn.Module, width: int) -> tuple[int, int, str]:
    """Return the least and the largest code, and the rounding."""
    if type(module).__name__ not in INTEGERS:
        return -1, 1, "nearest_even"
    inner: Any = module.int_quant
    impl = type(inner.float_to_int_impl).__name__
    if impl not in ROUNDINGS:
        raise CaptureError(f"{path}: it rounds by {impl}; allowed are {', '.join(ROUNDINGS)}")
    size = 1 << width
    narrow = int(bool(inner.narrow_range))
    ends = (-size // 2 + narrow, size // 2 - 1) if inner.signed else (0, size - 1 - narrow)
    return *ends, ROUNDINGS[impl]
