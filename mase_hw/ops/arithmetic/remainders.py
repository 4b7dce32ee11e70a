"""Remainders of divisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Remainder(Composite):
    """What is left of a division (torch.remainder): `y = x - d floor(x / d)`, of the sign of `d`.

    The quotient is rounded before it is rounded down, so that near multiples of `d` a whole `d` may
    be missed.
    """

    name = "remainder"
    targets = ("aten.remainder.Scalar", "aten.remainder.Tensor")
    mode = "floor"

    def problems(self, call: Call) -> list[str]:
        if call.result.dtype.startswith("int"):
            return ["it divides whole numbers; only real numbers are accepted"]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if call.result.dtype.startswith("int"):
            return None
        data = operands["data_in_0"]
        other = operands["data_in_1"] if "data_in_1" in operands else call.attributes["other"]
        whole = getattr(aten, self.mode).default(aten.div.Tensor(data, other))
        return [aten.sub.Tensor(data, aten.mul.Tensor(whole, other))]

    def examples(self) -> list[Example]:
        """By a number, and by a stream."""
        function = getattr(torch, self.name)
        return [
            (Apply(lambda x: function(x, 0.75)), (example_values(3, 7),)),
            (
                Apply(lambda x, y: function(x, y.abs() + 0.5)),
                (example_values(3, 7), example_values(3, 7, seed=1)),
            ),
        ]


class Fmod(Remainder):
    """What is left of a division (torch.fmod): `y = x - d trunc(x / d)`, of the sign of `x`."""

    name = "fmod"
    targets = ("aten.fmod.Scalar", "aten.fmod.Tensor")
    mode = "trunc"
