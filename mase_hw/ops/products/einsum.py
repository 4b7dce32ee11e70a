"""Einstein's sum over a stream and a constant, or two streams (torch.einsum).

With a constant it is a linear layer: indices of the constant are either summed with the stream's or
new ones of the result; the stream's summed indices become the features of the layer, the new ones
its results. Indices that stream and constant share and the result keeps would take a matrix for
each of their values.

Two streams are multiplied as matrices: indices that all three have count matrices, those that the
result has of one stream are rows or columns, and those that it does not have are summed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from string import ascii_letters
from typing import Any, ClassVar

import torch

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops.products._constant_product import ConstantProduct

_aten = torch.ops.aten
_FIX = "write it with torch.matmul and a constant matrix"


@dataclass(frozen=True)
class _Sum:
    """Indices of the stream, of the constant, and of the result, one letter each."""

    data: str
    weight: str
    result: str

    @property
    def kept(self) -> str:
        """Indices of the stream that stay."""
        return "".join(index for index in self.data if index not in self.weight)

    @property
    def summed(self) -> str:
        """Indices that are summed, in the stream's order."""
        return "".join(index for index in self.data if index in self.weight)

    @property
    def new(self) -> str:
        """Indices that the constant brings, in the result's order."""
        return "".join(index for index in self.result if index in self.weight)


class Einsum(ConstantProduct):
    """A sum of products over indices."""

    name: ClassVar[str] = "einsum"
    targets: ClassVar[tuple[str, ...]] = ("aten.einsum.default",)

    def refusals(self, call: Call) -> list[str]:
        """Return why there is no linear layer."""
        equation = call.attributes["equation"]
        if len(call.operands) == 1:
            data, result = _terms(call)[0], _terms(call)[-1]
            if len(set(data)) == len(data) == len(result):
                return []
            return [f"{equation!r} takes a diagonal or a sum; write it with torch.sum"]
        if len(call.operands) != 2:
            return [f"{equation!r} takes {len(call.operands)} operands; multiply two at a time"]
        if not call.constants:
            return _stream_refusals(call)
        found = _sum(call)
        if any(len(set(term)) < len(term) for term in (found.data, found.weight)):
            return [f"{equation!r} takes a diagonal; {_FIX}"]
        shared = [index for index in found.summed if index in found.result]
        if shared:
            return [
                f"{equation!r} has a matrix for each value of {shared[0]!r}: write a product for "
                "each and stack the results"
            ]
        alone = set(found.data + found.weight) - set(found.result) - set(found.summed)
        if alone:
            return [f"{equation!r} sums {sorted(alone)[0]!r} of one operand alone; sum it before"]
        if not found.summed:
            return [f"{equation!r} is an outer product; write it as an element-wise product"]
        return []

    def layer(self, call: Call, operands: Mapping[str, Any]) -> Any:
        """Return the linear layer between what brings the indices into order; or that alone."""
        if len(call.operands) == 1:
            return _permuted(operands["data_in_0"], *_terms(call))
        if not call.constants:
            return _matrices(call, operands)
        found = _sum(call)
        name = next(iter(call.constants))
        (stream,) = (key for key in call.operands if key != name)
        sizes = dict(zip(found.data, call.operands[stream].shape, strict=True))
        sizes |= dict(zip(found.weight, call.operands[name].shape, strict=True))
        features = prod(sizes[index] for index in found.summed)
        results = prod(sizes[index] for index in found.new)
        data = _permuted(operands[stream], found.data, found.kept + found.summed)
        if len(found.summed) > 1:
            data = _aten.flatten.using_ints(data, len(found.kept), -1)
        weight = _permuted(operands[name], found.weight, found.new + found.summed)
        weight = _aten.reshape.default(weight, [results, features])
        made = _aten.linear.default(data, weight)
        if not found.new:
            made = _aten.squeeze.dim(made, -1)
        elif len(found.new) > 1:
            made = _aten.unflatten.int(made, -1, [sizes[index] for index in found.new])
        return _permuted(made, found.kept + found.new, found.result)

    def examples(self) -> list[Example]:
        """Two indices summed, and two that are new; two streams."""
        narrow, wide = example_values(3, 4, 5, seed=1), example_values(4, 2, 3, seed=1)
        return [
            (
                Apply(lambda x, w: torch.einsum("bhd,hde->be", x, w), narrow),
                (example_values(2, 3, 4),),
            ),
            (
                Apply(lambda x, w: torch.einsum("...d,dhe->...he", x, w), wide),
                (example_values(2, 3, 4),),
            ),
            (
                Apply(lambda x, y: torch.einsum("bihc,bjhc->bhij", x, y)),
                (example_values(2, 3, 2, 4), example_values(2, 2, 2, 4, seed=1)),
            ),
            (
                Apply(lambda x, y: torch.einsum("bi,bji->bj", x, y)),
                (example_values(2, 4), example_values(2, 3, 4, seed=1)),
            ),
        ]


def _stream_refusals(call: Call) -> list[str]:
    """Return why two streams are no product of matrices."""
    equation = call.attributes["equation"]
    first, second, result = _terms(call)
    if any(len(set(term)) < len(term) for term in (first, second, result)):
        return [f"{equation!r} takes a diagonal; {_FIX}"]
    if not (first[:1] == second[:1] == result[:1]) or not result:
        return [f"{equation!r} does not keep the batch first in operands and result; permute them"]
    alone = (set(first) ^ set(second)) - set(result)
    if alone:
        return [f"{equation!r} sums {sorted(alone)[0]!r} of one operand alone; sum it before"]
    return []


def _matrices(call: Call, operands: Mapping[str, Any]) -> Any:
    """Return a product of matrices between what brings indices into order."""
    first, second, result = _terms(call)
    names = list(call.operands)
    sizes: dict[str, int] = {}
    for name, term in zip(names, (first, second), strict=True):
        sizes |= dict(zip(term, call.operands[name].shape, strict=True))
    shared = [index for index in first if index in second]
    batch = [index for index in shared if index in result]
    summed = [index for index in shared if index not in result]
    rows = [index for index in first if index not in second]
    columns = [index for index in second if index not in first]

    def matrices(name: str, term: str, left: list[str], right: list[str]) -> Any:
        made = _permuted(operands[name], term, "".join([*batch, *left, *right]))
        shape = [prod(sizes[index] for index in group) for group in (batch[1:], left, right)]
        return _aten.reshape.default(made, [-1, *(shape if len(batch) > 1 else shape[1:])])

    left = matrices(names[0], first, rows, summed)
    right = matrices(names[1], second, summed, columns)
    made = _aten.matmul.default(left, right)
    order = [*batch, *rows, *columns]
    made = _aten.reshape.default(made, [-1, *(sizes[index] for index in order[1:])])
    return _permuted(made, "".join(order), result)


def _sum(call: Call) -> _Sum:
    """Return the indices of a sum over a stream and a constant."""
    first, second, result = _terms(call)
    if next(iter(call.operands)) in call.constants:
        first, second = second, first
    return _Sum(first, second, result)


def _terms(call: Call) -> list[str]:
    """Return the indices of every operand and of the result, with letters for dots."""
    equation = str(call.attributes["equation"]).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    listed = terms.split(",")
    ranks = [len(spec.shape) for spec in call.operands.values()]
    free = [letter for letter in ascii_letters if letter not in equation]
    widths = [rank - len(term.replace("...", "")) for term, rank in zip(listed, ranks, strict=True)]
    widths = [width if "..." in term else 0 for term, width in zip(listed, widths, strict=True)]
    dots = "".join(free[: max(widths)])
    listed = [
        term.replace("...", dots[len(dots) - width :])
        for term, width in zip(listed, widths, strict=True)
    ]
    joined = "".join(listed)
    if arrow:
        result = result.replace("...", dots)
    else:
        result = dots + "".join(sorted(i for i in set(joined) - set(dots) if joined.count(i) == 1))
    return [*listed, result]


def _permuted(value: Any, given: str, wanted: str) -> Any:
    if given == wanted:
        return value
    return _aten.permute.default(value, [given.index(index) for index in wanted])
