"""Weights of torchao: tensors that hold integers and scales, as the reals for which they stand.

While a model is captured each such weight is a plain tensor, rounded to the levels that it has, so
that its layer is one layer, and its codes are kept.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.errors import CaptureError
from mase_hw.ops.infrastructure.fake_quantize import rounded

RANGES = {torch.int8: (-128, 127), torch.uint8: (0, 255)}


@contextlib.contextmanager
def plain_weights(model: nn.Module) -> Iterator[None]:
    """Let weights of torchao be plain tensors that are rounded.

    Raises:
        CaptureError: for integers that have no such levels, naming the weight.
    """
    changed: list[tuple[nn.Module, str, Any, Any]] = []
    if not isinstance(model, nn.Module) or "torchao" not in sys.modules:
        yield
        return
    try:
        for path, module in model.named_modules():
            for name, value in list(module._parameters.items()):
                if value is not None and type(value).__module__.startswith("torchao."):
                    where = f"{path}.{name}" if path else name
                    plain, levels = _levels(where, value)
                    changed.append((module, name, value, module.__dict__.get("forward")))
                    module._parameters[name] = nn.Parameter(plain, requires_grad=False)
                    module.__dict__["forward"] = _forward(module, name, levels)
        yield
    finally:
        for module, name, value, own in reversed(changed):
            module._parameters[name] = value
            if own is None:
                del module.__dict__["forward"]
            else:
                module.__dict__["forward"] = own


def _forward(module: nn.Module, name: str, levels: tuple[Any, ...]) -> Any:
    """Return a module's call with a rounded weight."""
    forward = type(module).forward

    @functools.wraps(forward)
    def call(*args: object, **kwargs: object) -> Any:
        held = module._parameters[name]
        assert held is not None
        del module._parameters[name]
        module.__dict__[name] = rounded(held, *levels)
        try:
            return forward(module, *args, **kwargs)
        finally:
            del module.__dict__[name]
            module._parameters[name] = held

    call.__dict__.pop("__wrapped__", None)
    return call


def _levels(where: str, value: object) -> tuple[Tensor, tuple[object, ...]]:
    """Return the reals of a weight, and its levels."""
    kind = type(value).__name__
    codes, scale = getattr(value, "qdata", None), getattr(value, "scale", None)
    dynamic = getattr(value, "act_quant_kwargs", None)
    if not isinstance(codes, Tensor) or codes.dtype not in RANGES or not isinstance(scale, Tensor):
        raise CaptureError(f"{where} is a {kind} of torchao; allowed are integers of 8 bits")
    if dynamic is not None:
        raise CaptureError(
            f"{where} is a {kind} whose layer finds a scale for each input as it runs; allowed are "
            "weights alone, or static scales of pt2e"
        )
    wide = [dim for dim, size in enumerate(scale.shape) if size > 1]
    if len(wide) > 1 or (wide and scale.numel() != codes.shape[wide[0]]):
        raise CaptureError(
            f"{where} has scales {list(scale.shape)} for {list(codes.shape)}; allowed are one, or "
            "one for each channel"
        )
    scales = [float(item) for item in scale.reshape(-1)]
    point = getattr(value, "zero_point", None)
    points = [0] * len(scales)
    if isinstance(point, Tensor):
        points = [int(item) for item in point.reshape(-1).expand(len(scales))]
    axis = wide[0] if wide else 0
    shape = [1] * codes.dim()
    if wide:
        shape[axis] = -1
    steps = codes.double() - torch.tensor(points, dtype=torch.float64).reshape(shape)
    plain = steps * torch.tensor(scales, dtype=torch.float64).reshape(shape)
    return plain.float(), (scales, points, axis, *RANGES[codes.dtype])
