"""The largest and the smallest of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops._numbers import Numeric, Selecting
from mase_hw.ops.reductions._reduce import Accumulation


class Amax(Accumulation, Selecting, Numeric):
    """Largest element over dimensions (torch.amax)."""

    name = "amax"
    targets = ("aten.amax.default", "aten.max.default")
    maximum = True
    keeps_format = True

    def divisor(self, call: Call) -> int:
        return 1

    def examples(self) -> list[Example]:
        """Over lanes, and over an image's pixels."""
        return [
            (Apply(lambda x: x.amax(-1)), (example_values(2, 3, 7),)),
            (Apply(lambda x: x.amax((2, 3), keepdim=True)), (example_values(2, 5, 3, 2),)),
        ]


class Amin(Composite):
    """Smallest element over dimensions (torch.amin): the negative of the largest of negatives."""

    name = "amin"
    targets = ("aten.amin.default", "aten.min.default")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        dims, keeps = list(call.attributes["dim"] or ()), bool(call.attributes["keepdim"])
        return [
            aten.neg.default(
                aten.amax.default(aten.neg.default(operands["data_in_0"]), dims, keeps)
            )
        ]

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: x.amin(-1)), (example_values(2, 3, 7),)),
            (Apply(lambda x: x.amin(1, keepdim=True)), (example_values(2, 3, 4),)),
        ]


class Max(Composite):
    """Largest element along a dimension and its index (torch.max), either of them or both."""

    name = "max"
    targets = ("aten.max.dim",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """The maximum, and where it is."""
        data, dim = operands["data_in_0"], int(call.attributes["dim"])
        keepdim = bool(call.attributes["keepdim"])
        return [
            aten.amax.default(data, [dim], keepdim),
            aten.argmax.default(data, dim, keepdim),
        ]

    def examples(self) -> list[Example]:
        """Values; indices; both are a test of their own."""
        return [
            (Apply(lambda x: x.max(1).values), (example_values(2, 3, 4),)),
            (Apply(lambda x: x.max(-1, keepdim=True).indices), (example_values(2, 5),)),
        ]


class Min(Composite):
    """Smallest element along a dimension and its index (torch.min), either of them or both."""

    name = "min"
    targets = ("aten.min.dim",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """The minimum, and where it is."""
        data, dim = operands["data_in_0"], int(call.attributes["dim"])
        keeps = bool(call.attributes["keepdim"])
        return [aten.amin.default(data, [dim], keeps), aten.argmin.default(data, dim, keeps)]

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: x.min(1).values), (example_values(2, 3, 4),)),
            (Apply(lambda x: x.min(-1, keepdim=True).indices), (example_values(2, 5),)),
        ]


class Argmin(Composite):
    """Index of the smallest of a dimension (torch.argmin): where the negative is largest."""

    name = "argmin"
    targets = ("aten.argmin.default",)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor]:
        negative = aten.neg.default(operands["data_in_0"])
        given = call.attributes
        return [aten.argmax.default(negative, given["dim"], given["keepdim"])]

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: x.argmin(1)), (example_values(2, 10),))]
