"""Logarithm of softmax along a dimension, `y = x - log(sum exp(x))` (torch.log_softmax).

The logarithm of the sum of exponentials is that of `logsumexp`, rounded to the format of the
difference; the difference is exact and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._composite import Composite
from mase_hw.ops.reductions.compositions import log_of_exponentials


class LogSoftmax(Composite):
    """`y[i] = x[i] - log(sum exp(x))`."""

    name = "log_softmax"
    targets = (
        "aten.log_softmax.int",
        "aten._log_softmax.default",
        "aten.special_log_softmax.default",
    )

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        data = operands["data_in_0"]
        whole = log_of_exponentials(data, [int(call.attributes["dim"])])
        return [aten.sub.Tensor(data, whole)]

    def examples(self) -> list[Example]:
        return [
            example(lambda x: torch.log_softmax(x, -1), (3, 2, 7)),
            example(lambda x: torch.log_softmax(x, 1), (3, 5, 2)),
        ]
