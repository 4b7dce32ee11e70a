"""The larger and the smaller of two numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw.formats import FIXED_POINT
from mase_hw.ops._base import Example, overloads
from mase_hw.ops._numbers import Selecting
from mase_hw.ops._rewriting import Commutative
from mase_hw.ops.arithmetic._binary import Binary


class _Extremum(Binary, Selecting, Commutative):
    """The larger or the smaller of two tensors, element by element, rounded once.

    Args:
        name: of the operator and of the cell's operation.
        targets: torch operators of the default overload, and full names.
        function: of real values.
    """

    families = FIXED_POINT
    homogeneous = True

    def __init__(self, name: str, targets: str, function: Callable[..., Tensor]) -> None:
        self.name, self.operation, self._function = name, name, function
        self.targets = overloads(targets)

    def combine_values(self, first: Tensor, second: Tensor) -> Tensor:
        return self._function(first, second)

    def examples(self) -> list[Example]:
        return super().examples()[:-1]


EXTREMA = (
    _Extremum("maximum", "maximum aten.max.other", torch.maximum),
    _Extremum("minimum", "minimum fmin aten.min.other", torch.minimum),
)
