"""Models that `torch.ao.quantization` has converted: integers as the reals for which they stand.

While such a model is captured its layers are those of reals, whose weights and results are rounded
to the levels that the integers have.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.ao.nn.intrinsic.quantized as intrinsic
import torch.ao.nn.quantized as integers
from torch import Tensor, nn
from torch.ao.nn.quantized.modules.linear import LinearPackedParams
from torch.ao.nn.quantized.reference.modules.utils import ReferenceQuantizedModule
from torch.nn import functional

from mase_hw.ops.infrastructure.fake_quantize import rounded

RANGES = {torch.quint8: (0, 255), torch.qint8: (-128, 127), torch.qint32: (-(2**31), 2**31 - 1)}
LAYERS: dict[Any, Any] = {
    integers.Conv1d: nn.Conv1d, intrinsic.ConvReLU1d: nn.Conv1d,
    integers.Conv2d: nn.Conv2d, intrinsic.ConvReLU2d: nn.Conv2d,
    integers.Conv3d: nn.Conv3d, intrinsic.ConvReLU3d: nn.Conv3d,
    integers.Linear: nn.Linear, intrinsic.LinearReLU: nn.Linear,
}  # fmt: skip
ENDS = (integers.Quantize, integers.DeQuantize, integers.QFunctional, LinearPackedParams)
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "add": operator.add, "mul": operator.mul, "cat": torch.cat,
    "add_relu": lambda x, y: functional.relu(x + y),
    "mul_relu": lambda x, y: functional.relu(x * y),
}  # fmt: skip
Levels = tuple[Any, ...]


@contextlib.contextmanager
def reals_of_integers(model: nn.Module) -> Iterator[None]:
    """Let layers of integers be layers of rounded reals."""
    places = [
        (parent._modules, name, child)
        for parent in model.modules()
        for name, child in parent._modules.items()
        if child is not None and is_converted(child) and type(parent) not in LAYERS
    ]
    reference = [item for item in model.modules() if isinstance(item, ReferenceQuantizedModule)]
    try:
        for module in reference:
            module.__dict__["get_weight"] = _reference_weight(module)
        for children, name, child in places:
            children[name] = _substitute(child)
        yield
    finally:
        for children, name, child in places:
            children[name] = child
        for module in reference:
            del module.__dict__["get_weight"]


def is_converted(module: nn.Module) -> bool:
    """True for a module of integers that stands for one of rounded reals."""
    return type(module) in (*LAYERS, *ENDS)


def _reference_weight(module: Any) -> Callable[[], Tensor]:
    """Return what gives a weight, rounded to the levels that a reference layer has for it."""
    scales, points = (
        getattr(module, f"weight_{name}").reshape(-1) for name in ("scale", "zero_point")
    )
    levels = scales.tolist(), points.tolist(), module.weight_axis_int, *RANGES[module.weight_dtype]
    return lambda: rounded(module.weight, *levels)


def _range_levels(scale: Any, point: Any, dtype: torch.dtype) -> Levels:
    return [float(scale)], [int(point)], 0, *RANGES[dtype]


def _substitute(module: Any) -> nn.Module:
    if isinstance(module, integers.DeQuantize):
        return nn.Identity()
    if isinstance(module, integers.Quantize):
        return _Rounding(_range_levels(module.scale, module.zero_point, module.dtype))
    if isinstance(module, integers.QFunctional):
        return _Functional(module)
    return _Layer(module)


class _Rounding(nn.Module):
    def __init__(self, levels: Levels) -> None:
        super().__init__()
        self.levels = levels

    def forward(self, x: Tensor) -> Tensor:
        return rounded(x, *self.levels)


class _Functional(nn.Module):
    """Sums, products and concatenations, by the names that `QFunctional` gives them."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        levels = _range_levels(module.scale, module.zero_point, torch.quint8)
        for name, function in FUNCTIONS.items():
            self.__dict__[name] = self._rounded(function, levels)

    @staticmethod
    def _rounded(function: Callable[..., Tensor], levels: Levels) -> Callable[..., Tensor]:
        return lambda *operands: rounded(function(*operands), *levels)


class _Layer(nn.Module):
    """A convolution or a linear layer whose weights and results are rounded."""

    integers: Any

    def __init__(self, module: Any) -> None:
        super().__init__()
        weight, bias = module.weight(), module.bias()
        if weight.qscheme() == torch.per_tensor_affine:
            scales, points, axis = [weight.q_scale()], [weight.q_zero_point()], 0
        else:
            scales = weight.q_per_channel_scales().tolist()
            points = weight.q_per_channel_zero_points().tolist()
            axis = weight.q_per_channel_axis()
        self.levels = scales, points, axis, *RANGES[weight.dtype]
        self.result = _range_levels(module.scale, module.zero_point, torch.quint8)
        self.weight = nn.Parameter(weight.dequantize(), requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)
        self.__dict__["integers"] = module

    def forward(self, x: Tensor) -> Tensor:
        kind = type(self.integers)
        real, weight = LAYERS[kind], rounded(self.weight, *self.levels)
        x = x.dequantize() if x.dtype in RANGES else x
        if real is nn.Linear:
            result = functional.linear(x, weight, self.bias)
        else:
            result = real._conv_forward(self.integers, x, weight, self.bias)
        rectifies = "ReLU" in kind.__name__
        return rounded(functional.relu(result) if rectifies else result, *self.result)
