"""Logarithm of softmax along a dimension, `y = x - log(sum exp(x))` (torch.log_softmax).

The logarithm of the sum of exponentials is that of `logsumexp`, rounded to the format of the
difference; the difference is exact and rounded once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, example
from mase_hw.ops._composite import composition
from mase_hw.ops.reductions.compositions import log_of_exponentials


@composition(
    "aten.log_softmax.int",
    "aten._log_softmax.default",
    "aten.special_log_softmax.default",
    examples=lambda: [
        example(lambda x: torch.log_softmax(x, -1), (3, 2, 7)),
        example(lambda x: torch.log_softmax(x, 1), (3, 5, 2)),
    ],
)
def log_softmax(call: Call, data: Tensor) -> Tensor:
    """`y[i] = x[i] - log(sum exp(x))`."""
    return aten.sub.Tensor(data, log_of_exponentials(data, [int(call.attributes["dim"])]))
