"""Weights of torchao: tensors that hold integers and scales, as the reals for which they stand.

While a model is captured each such weight is a plain tensor, rounded to the levels that it has, so
that its layer is one layer, and its codes are kept.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.errors import CaptureError
from mase_hw.ops.infrastructure.fake_quantize import rounded

RANGES = {torch.int8: (-128, 127), torch.uint8: (0, 255)}
# Floats of 8 bits as whole numbers of their least step: its exponent, and the bits that they have.
FLOATS = {torch.float8_e4m3fn: (-9, 19)}
# Bits of weights whose scales are of groups: they have one common step.
MOST_BITS = 24
Levels = tuple[Any, ...]


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
                where = f"{path}.{name}" if path else name
                weight = _weight(module, name, value, where)
                if weight is not None:
                    plain, levels, static = weight
                    changed.append((module, name, value, module.__dict__.get("forward")))
                    module._parameters[name] = nn.Parameter(plain, requires_grad=False)
                    module.__dict__["forward"] = _forward(module, name, levels, static)
        yield
    finally:
        for module, name, value, own in reversed(changed):
            module._parameters[name] = value
            if own is None:
                del module.__dict__["forward"]
            else:
                module.__dict__["forward"] = own


def _weight(
    module: nn.Module, name: str, value: Any, where: str
) -> tuple[Tensor, Levels, Levels | None] | None:
    """Return a weight's reals and levels, and those of its layer's input; None for plain ones."""
    fake: Any = getattr(module, "weight_fake_quantizer", None) if name == "weight" else None
    if value is not None and type(value).__module__.startswith("torchao."):
        if getattr(value, "act_quant_kwargs", None) is None:
            return *_levels(where, value), None
        scale = getattr(value, "act_quant_scale", None)
        if not isinstance(scale, Tensor) or scale.numel() > 1:
            raise CaptureError(f"{where} is a {type(value).__name__} {_AS_IT_RUNS}")
        return *_levels(where, value), ([float(scale)], [0], 0, *RANGES[torch.int8])
    if fake is None or not type(fake).__module__.startswith("torchao."):
        return None
    if getattr(module, "activation_fake_quantizer", None) is not None:
        raise CaptureError(f"{where} is that of a {type(module).__name__} {_AS_IT_RUNS}")
    plain = fake(value).detach()
    return plain, _whole_steps(where, plain), None


_AS_IT_RUNS = (
    "whose layer finds a scale for each input as it runs; allowed are weights alone, or static "
    "scales, as of pt2e"
)


def _forward(
    module: nn.Module, name: str, levels: Levels, static: Levels | None
) -> Callable[..., Any]:
    """Return a module's call with a rounded weight, and a rounded input."""
    forward: Any = type(module).forward if static is None else nn.Linear.forward
    if hasattr(module, "weight_fake_quantizer"):
        forward = nn.Linear.forward

    @functools.wraps(forward)
    def call(*args: Any, **kwargs: object) -> Any:
        held = module._parameters[name]
        assert held is not None
        del module._parameters[name]
        module.__dict__[name] = rounded(held, *levels)
        if static is not None:
            args = (rounded(args[0], *static), *args[1:])
        try:
            return forward(module, *args, **kwargs)
        finally:
            del module.__dict__[name]
            module._parameters[name] = held

    call.__dict__.pop("__wrapped__", None)
    return call


def _levels(where: str, value: Any) -> tuple[Tensor, Levels]:
    """Return the reals of a weight, and its levels."""
    kind = type(value).__name__
    codes, scale = getattr(value, "qdata", None), getattr(value, "scale", None)
    if not isinstance(codes, Tensor) or not isinstance(scale, Tensor):
        raise CaptureError(f"{where} is a {kind} of torchao; allowed are integers of 8 bits")
    wide = [dim for dim, size in enumerate(scale.shape) if size > 1]
    by_channel = len(wide) < 2 and (not wide or scale.numel() == codes.shape[wide[0]])
    if not by_channel or codes.dtype not in {*RANGES, *FLOATS} or not scale.is_floating_point():
        plain = value.dequantize().float()
        return plain, _whole_steps(where, plain)
    scales = [float(item) for item in scale.reshape(-1)]
    point = getattr(value, "zero_point", None)
    points = [0] * len(scales)
    if isinstance(point, Tensor):
        points = [int(item) for item in point.reshape(-1).expand(len(scales))]
    if codes.dtype in FLOATS:
        exponent, bits = FLOATS[codes.dtype]
        codes, scales = codes.double() * 2.0**-exponent, [item * 2.0**exponent for item in scales]
        ends = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    else:
        ends = RANGES[codes.dtype]
    axis = wide[0] if wide else 0
    shape = [1] * codes.dim()
    if wide:
        shape[axis] = -1
    steps = codes.double() - torch.tensor(points, dtype=torch.float64).reshape(shape)
    plain = steps * torch.tensor(scales, dtype=torch.float64).reshape(shape)
    return plain.float(), (scales, points, axis, *ends)


def _whole_steps(where: str, plain: Tensor) -> Levels:
    """Return the fewest bits in which reals are multiples of one power of two.

    Raises:
        CaptureError: for more bits than weights have.
    """
    numbers = plain.double().abs()
    numbers = numbers[numbers > 0]
    exponents = [
        math.frexp(item)[1] - math.frexp(item)[0].as_integer_ratio()[1].bit_length() + 1
        for item in numbers.tolist()
    ]  # fmt: skip
    step = min(exponents, default=0)
    largest = float(numbers.max()) if numbers.numel() else 1.0
    bits = max(2, int(largest * 2.0**-step).bit_length() + 1)
    if bits > MOST_BITS:
        raise CaptureError(
            f"{where} has scales of groups, and {bits} bits in one step of all of them; allowed "
            f"are {MOST_BITS}, or one scale for each channel"
        )
    return [2.0**step], [0], 0, -(1 << (bits - 1)), (1 << (bits - 1)) - 1
