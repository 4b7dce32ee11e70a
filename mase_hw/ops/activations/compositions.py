"""Activations that are written with others."""

from __future__ import annotations

from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, example
from mase_hw.ops._composite import composition


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
