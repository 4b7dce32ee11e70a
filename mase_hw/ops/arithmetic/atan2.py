"""The angle of a vector of two elements (torch.atan2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import pi

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite


class Atan2(Composite):
    """The arctangent of the smaller over the larger magnitude, and reflections into each octant.

    A quotient of 0 to 1 keeps its resolution where operands are decades apart. Beside a negative
    `x`, a `y` that is rounded to zero has the angle of a positive one: codes have no negative zero.
    """

    name = "atan2"
    targets = ("aten.atan2.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the angle, reflected at the diagonal, the vertical and the horizontal axis."""
        y, x = operands.values()
        rise, run = aten.abs.default(y), aten.abs.default(x)
        shorter, longer = aten.minimum.default(rise, run), aten.maximum.default(rise, run)
        angle = aten.atan.default(aten.div.Tensor(shorter, longer))
        for behind, turn in (
            (aten.gt.Tensor(rise, run), pi / 2),
            (aten.lt.Scalar(x, 0.0), pi),
            (aten.lt.Scalar(y, 0.0), 0.0),
        ):
            reflected = aten.rsub.Scalar(angle, turn) if turn else aten.neg.default(angle)
            angle = aten.where.self(behind, reflected, angle)
        return [angle]

    def examples(self) -> list[Example]:
        return [(Apply(torch.atan2), (example_values(3, 6), example_values(3, 6, seed=1)))]
