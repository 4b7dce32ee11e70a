"""Variance and standard deviation of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, along_batch, example_values
from mase_hw.ops._composite import Composite


class Variance(Composite):
    """Variance over dimensions (torch.var): the mean square of what is left of the mean."""

    name = "variance"
    targets = ("aten.var.correction", "aten.var.dim")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return a mean of squares, scaled where the divisor is another one than its size."""
        return variance(call, operands["data_in_0"])

    def problems(self, call: Call) -> list[str]:
        """Refuse to mix inferences, and a divisor that is not positive."""
        return variance_problems(call) or super().problems(call)

    def examples(self) -> list[Example]:
        """Over rows, and over an image's pixels without a correction."""
        return [
            (Apply(lambda x: x.var(-1)), (example_values(2, 3, 5),)),
            (
                Apply(lambda x: x.var((2, 3), correction=0, keepdim=True)),
                (example_values(2, 3, 2, 4),),
            ),
        ]


def _given(call: Call) -> tuple[list[int], int, float]:
    """Return the dimensions, how many elements they have, and what their sum is divided by."""
    shape = call.operands["data_in_0"].shape
    given = call.attributes.get("dim")
    listed = [given] if isinstance(given, int) else list(given or range(len(shape)))
    dims = sorted(int(dim) % len(shape) for dim in listed)
    count = 1
    for dim in dims:
        count *= shape[dim]
    correction = call.attributes.get("correction")
    if correction is None:
        correction = int(bool(call.attributes.get("unbiased", True)))
    return dims, count, count - float(correction)


def variance_problems(call: Call) -> list[str]:
    """Obstacles between a variance and hardware."""
    dims, count, divisor = _given(call)
    if 0 in dims:
        return [along_batch("it reduces", "name other dimensions to reduce")]
    if divisor <= 0:
        return [f"the variance of {count} elements is divided by {divisor:g}; correct by less"]
    return []


def variance(call: Call, data: Tensor) -> list[Tensor] | None:
    """Return a variance written with other operators."""
    if variance_problems(call):
        return None
    dims, count, divisor = _given(call)
    keeps = bool(call.attributes.get("keepdim", False))
    rest = aten.sub.Tensor(data, aten.mean.dim(data, dims, True))
    made = aten.mean.dim(aten.square.default(rest), dims, keeps)
    return [made if divisor == count else aten.mul.Tensor(made, count / divisor)]


def variance_and_mean(call: Call, data: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return a variance and the mean beside it, None where a variance cannot be written."""
    found = variance(call, data)
    if found is None:
        return None
    dims = call.attributes["dim"] or list(range(1, len(call.operands["data_in_0"].shape)))
    return found[0], aten.mean.dim(data, dims, bool(call.attributes["keepdim"]))


class StandardDeviation(Composite):
    """Standard deviation over dimensions (torch.std): the root of the variance."""

    name = "standard_deviation"
    targets = ("aten.std.correction", "aten.std.dim")

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        found = variance(call, operands["data_in_0"])
        return None if found is None else [aten.sqrt.default(found[0])]

    def problems(self, call: Call) -> list[str]:
        return variance_problems(call) or super().problems(call)

    def examples(self) -> list[Example]:
        return [(Apply(lambda x: x.std(1)), (example_values(2, 5, 3),))]


class VarMean(Composite):
    """Variance and mean over dimensions (torch.var_mean)."""

    name = "var_mean"
    targets = ("aten.var_mean.correction", "aten.var_mean.dim")

    def problems(self, call: Call) -> list[str]:
        return variance_problems(call) or super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the variance and the mean."""
        found = variance_and_mean(call, operands["data_in_0"])
        return None if found is None else [*found]

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: torch.cat(torch.var_mean(x, -1), 1)), (example_values(2, 3, 5),)),
            (Apply(lambda x: torch.var_mean(x, -1)[0]), (example_values(2, 3, 5),)),
        ]


class StdMean(Composite):
    """Standard deviation and mean over dimensions (torch.std_mean)."""

    name = "std_mean"
    targets = ("aten.std_mean.correction", "aten.std_mean.dim")

    def problems(self, call: Call) -> list[str]:
        return variance_problems(call) or super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return the standard deviation and the mean."""
        found = variance_and_mean(call, operands["data_in_0"])
        return None if found is None else [aten.sqrt.default(found[0]), found[1]]

    def examples(self) -> list[Example]:
        return [
            (Apply(lambda x: torch.cat(torch.std_mean(x, -1), 1)), (example_values(2, 3, 5),)),
            (Apply(lambda x: torch.std_mean(x, -1)[0]), (example_values(2, 3, 5),)),
        ]
