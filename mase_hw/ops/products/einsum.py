"""Einstein's sum over streams and constants (torch.einsum).

An operand is a diagonal first where it repeats an index, and a sum where an index is its own alone.
Then operands are multiplied two at a time, from the left.

- A constant makes a linear layer: what it shares with the stream and is summed are the features of
  the layer, its own indices the results. An index that both have and the result keeps counts
  matrices, of experts, heads or capsules, each a layer of its own.
- Two streams are multiplied as matrices: indices that all have count matrices, those of one stream
  are rows or columns.
- Where nothing is summed it is an element-wise product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from string import ascii_letters

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values
from mase_hw.ops.products._constant_product import ConstantProduct, stacked


@dataclass(frozen=True)
class _Part:
    """An operand, or a product of some.

    Attributes:
        value: what stands for it.
        term: its indices, one letter each.
        constant: whether it is.
    """

    value: Tensor
    term: str
    constant: bool

    def ordered(self, wanted: str) -> _Part:
        if self.term == wanted:
            return self
        order = [self.term.index(index) for index in wanted]
        return _Part(aten.permute.default(self.value, order), wanted, self.constant)

    def shaped(self, *sizes: int) -> Tensor:
        return aten.reshape.default(self.value, list(sizes))

    def alone(self, kept: set[str]) -> _Part:
        """Return it without indices that it repeats, and summed over those that are not kept."""
        value, term = self.value, self.term
        for index in [item for item in term if term.count(item) > 1]:
            while term.count(index) > 1:
                first, second = term.index(index), term.rindex(index)
                value = aten.diagonal.default(value, 0, first, second)
                term = term[:first] + term[first + 1 : second] + term[second + 1 :] + index
        dims = [place for place, index in enumerate(term) if index not in kept]
        if dims:
            value = aten.sum.dim_IntList(value, dims)
        return _Part(value, "".join(item for item in term if item in kept), self.constant)


class Einsum(ConstantProduct):
    """A sum of products over indices."""

    name = "einsum"
    targets = ("aten.einsum.default",)

    def refusals(self, call: Call) -> list[str]:
        *given, result = _terms(call)
        streams = [
            term for name, term in zip(call.operands, given, strict=True) if name in call.streams
        ]
        if len(streams) > 1 and (not result or {term[:1] for term in streams} != {result[0]}):
            equation = call.attributes["equation"]
            return [
                f"{equation!r} does not keep the batch first in operands and result; permute them"
            ]
        return []

    def layer(self, call: Call, operands: Mapping[str, Tensor]) -> Tensor:
        *given, result = _terms(call)
        sizes: dict[str, int] = {}
        parts = []
        pairs = [*zip(call.operands, given, strict=True)]
        batch = {term[:1] for name, term in pairs if name in call.streams}
        for name, term in pairs:
            shape, value = call.operands[name].shape, operands[name]
            sizes |= dict(zip(term, shape, strict=True))
            if name in call.constants and term[:1] in batch and term.count(term[0]) == shape[0]:
                # One row for all inferences.
                value, term = aten.select.int(value, 0, 0), term[1:]
            parts.append(_Part(value, term, name in call.constants))
        for place, part in enumerate(parts):
            others = [item.term for item in parts if item is not part]
            parts[place] = part.alone(set(result).union(*others))
        product, *rest = parts
        for place, part in enumerate(rest):
            kept = set(result).union(*(item.term for item in rest[place + 1 :]))
            product = _product(product, part, kept, sizes)
        return product.ordered(result).value

    def examples(self) -> list[Example]:
        narrow, wide = example_values(3, 4, 5, seed=1), example_values(4, 2, 3, seed=1)
        return [
            example(Apply(lambda x, w: torch.einsum("bhd,hde->be", x, w), narrow), (2, 3, 4)),
            example(Apply(lambda x, w: torch.einsum("...d,dhe->...he", x, w), wide), (2, 3, 4)),
            example(lambda x, y: torch.einsum("bihc,bjhc->bhij", x, y), (2, 3, 2, 4), (2, 2, 2, 4)),
            example(lambda x, y: torch.einsum("bi,bji->bj", x, y), (2, 4), (2, 3, 4)),
            example(
                Apply(
                    lambda x, w: torch.einsum("btd,tde->bte", x, w), example_values(3, 4, 2, seed=1)
                ),
                (2, 3, 4),
            ),
            example(
                Apply(
                    lambda x, w: torch.einsum("bi,bj,ij->bij", x, x, w),
                    example_values(3, 3, seed=1),
                ),
                (2, 3),
            ),
            example(
                Apply(
                    lambda x, w: torch.einsum("bid,bjd->bij", w, x), example_values(1, 3, 4, seed=1)
                ),
                (2, 5, 4),
            ),
            (Apply(lambda x, y: torch.einsum("bii,bij->b", x, y)), (example_values(2, 3, 3),) * 2),
        ]


def _product(left: _Part, right: _Part, kept: set[str], sizes: Mapping[str, int]) -> _Part:
    """Return the product of two parts, summed over the indices that are not kept."""
    constant = left.constant and right.constant
    shared = [index for index in left.term if index in right.term]
    summed = [index for index in shared if index not in kept]
    if constant:
        term = "".join(index for index in dict.fromkeys(left.term + right.term) if index in kept)
        equation = f"{left.term},{right.term}->{term}"
        return _Part(aten.einsum.default(equation, [left.value, right.value]), term, True)
    if not summed:
        return _elementwise(left, right)
    if left.constant:
        left, right = right, left
    counted = [index for index in left.term if index in shared and index not in summed]
    if right.constant and not counted:
        return _linear(left, right, "".join(summed), sizes)
    return _matrices(left, right, counted, summed, sizes)


def _elementwise(left: _Part, right: _Part) -> _Part:
    """Return a product in which each part is repeated along the indices of the other alone."""
    term = "".join(dict.fromkeys(left.term + right.term))
    if left.constant or not right.term.startswith(term[:1]):
        term = "".join(dict.fromkeys(right.term + left.term)) if left.constant else term
    values = []
    for part in (left, right):
        value = part.ordered("".join(index for index in term if index in part.term)).value
        for place, index in enumerate(term):
            if index not in part.term:
                value = aten.unsqueeze.default(value, place)
        values.append(value)
    return _Part(aten.mul.Tensor(*values), term, False)


def _linear(data: _Part, weight: _Part, summed: str, sizes: Mapping[str, int]) -> _Part:
    kept = "".join(index for index in data.term if index not in summed)
    new = "".join(index for index in weight.term if index not in summed)
    value = data.ordered(kept + summed).value
    if len(summed) > 1:
        value = aten.flatten.using_ints(value, len(kept), -1)
    matrix = weight.ordered(new + summed).shaped(_size(new, sizes), _size(summed, sizes))
    product = aten.linear.default(value, matrix)
    if not new:
        product = aten.squeeze.dim(product, -1)
    elif len(new) > 1:
        product = aten.unflatten.int(product, -1, [sizes[index] for index in new])
    return _Part(product, kept + new, False)


def _matrices(
    left: _Part,
    right: _Part,
    counted: Sequence[str],
    summed: Sequence[str],
    sizes: Mapping[str, int],
) -> _Part:
    """Return products of matrices, one for each inference and each value of counted indices."""
    first = "" if right.constant else left.term[0]
    batch = left.term[0]
    counted = [index for index in counted if index != batch]
    rows = [index for index in left.term if index not in (*counted, *summed, batch)]
    columns = [index for index in right.term if index not in (*counted, *summed, first)]
    shape = [_size(counted, sizes)] if counted else []
    orders = [[*counted, *rows, *summed], [*counted, *summed, *columns]]
    rest = [
        [_size(rows, sizes), _size(summed, sizes)],
        [_size(summed, sizes), _size(columns, sizes)],
    ]
    data = left.ordered("".join([batch, *orders[0]])).shaped(-1, *shape, *rest[0])
    other = right.ordered("".join([first, *orders[1]])).shaped(
        *([-1] if first else []), *shape, *rest[1]
    )
    if right.constant:
        constant = [*shape, *rest[1]]
        product = stacked(other, data, constant, [(0, 1, shape[0])], left=False)
    else:
        product = aten.matmul.default(data, other)
    order = [*counted, *rows, *columns]
    product = aten.reshape.default(product, [-1, *(sizes[index] for index in order)])
    return _Part(product, "".join([batch, *order]), False)


def _size(indices: Sequence[str], sizes: Mapping[str, int]) -> int:
    return prod(sizes[index] for index in indices)


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
