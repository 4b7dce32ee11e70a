"""Gaussian error linear unit: `x * Phi(x)`, or its tanh form (`GELU`; arXiv:1606.08415)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.approximation import Real, RealMath
from mase_hw.ops._base import Attributes, Call, example
from mase_hw.ops._composite import composition
from mase_hw.ops._interfaces import Spelling
from mase_hw.ops._unary import Unary


class GELU(Unary):
    """Gaussian error linear unit."""

    name = "gelu"
    targets = ("aten.gelu.default", "aten.gelu_.default")

    def equation(self, x: Real, math: RealMath, attributes: Attributes) -> Real:
        if attributes.get("approximate", "none") == "tanh":
            # (1 + tanh(z)) / 2 = sigmoid(2 z), which keeps its precision far left of zero.
            inner = math.sqrt(2.0) / math.sqrt(math.pi) * (x + 0.044715 * x * x * x)
            return x * math.sigmoid(2 * inner)
        return x * math.erfc(-x / math.sqrt(2.0)) / 2

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        """Yield both forms as libraries of models write them out, multiplied in any order."""
        for erf in (torch.erf(x / 2**0.5), torch.erf(x * 0.5**0.5)):
            yield from _weighted(x, 1.0 + erf)
        scale, cubic = (2 / torch.pi) ** 0.5, 0.044715
        for inner in (scale * (x + cubic * x**3), x * scale * (1.0 + cubic * x * x)):
            for result in _weighted(x, 1.0 + torch.tanh(inner)):
                yield result, {"approximate": "tanh"}


def _weighted(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return 0.5 * x * weight, 0.5 * (x * weight), x * (0.5 * weight)


@composition(
    "aten.glu.default",
    examples=lambda: [example(nn.GLU(), (2, 3, 6)), example(nn.GLU(1), (2, 4, 3))],
)
def glu(call: Call, data: Tensor) -> Tensor:
    """Gated linear unit: one half along a dimension times the sigmoid of the other.

    arXiv:1612.08083
    """
    dim = int(call.attributes["dim"])
    size = call.operands["data_in_0"].shape[dim] // 2
    half = aten.slice.Tensor(data, dim, 0, size)
    gate = aten.slice.Tensor(data, dim, size, 2 * size)
    return aten.mul.Tensor(half, aten.sigmoid.default(gate))


@composition("aten.rrelu.default", examples=lambda: [example(nn.RReLU(0.1, 0.4), (3, 7))])
def rrelu(call: Call, data: Tensor, *noise: Tensor) -> Tensor:
    """Randomized leaky rectifier at inference: its slope is the mean of its bounds (nn.RReLU)."""
    slope = (float(call.attributes["lower"]) + float(call.attributes["upper"])) / 2
    return aten.leaky_relu.default(data, slope)
