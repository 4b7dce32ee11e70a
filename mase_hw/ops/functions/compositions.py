"""Functions of one number that are written with others."""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, example
from mase_hw.ops._composite import composition


@composition(
    "aten.sign.default",
    "aten.sgn.default",
    examples=lambda: [example(lambda x: torch.sign(x.relu() - 0.5), (3, 7))],
)
def sign(call: Call, data: Tensor) -> Tensor:
    """Two comparisons with zero, and the choices between them (torch.sign)."""
    negative = aten.where.Scalar(aten.lt.Scalar(data, 0), -1.0, 0.0)
    return aten.where.ScalarSelf(aten.gt.Scalar(data, 0), 1.0, negative)


@composition(
    "aten.tan.default",
    examples=lambda: [example(lambda x: torch.tan(x.clamp(-1.0, 1.0)), (3, 7))],
)
def tan(call: Call, data: Tensor) -> Tensor:
    """Quotient of sine and cosine (torch.tan), each rounded: coarse near the poles."""
    return aten.div.Tensor(aten.sin.default(data), aten.cos.default(data))
