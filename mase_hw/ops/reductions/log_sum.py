"""Logarithm of a sum of exponentials of numbers of at most zero, `y = log(sum exp(d))`.

It is what logsumexp and log_softmax are made of, the largest element subtracted from all. With `F`
fraction bits of the result, 6 or more, and `g = max(1, ceil(log2 n))` for `n` terms, exponentials
have `G = min(F + 2 + g, 31 - g)` fraction bits, from a table or a polynomial, and their sum is
exact: all their errors together are a quarter of a step, where `G` has its bits. The logarithm is
that of `log`, at most one step from the correctly rounded one. Exponentials end at 2: numbers above
`log(2)` count as that.
"""

from __future__ import annotations

from math import log, prod

import torch
from torch import Tensor

from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.arithmetic.quotient import Quotient
from mase_hw.cells import Cell, Netlist, NetlistBuilder
from mase_hw.formats import Format
from mase_hw.formats.fixed import MAX_WIDTH_BITS, Fixed
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._base import Call, Example, Reference, example, example_values
from mase_hw.ops._elementwise import elements_of
from mase_hw.ops._interfaces import Exact, Judged, Numeric
from mase_hw.ops._library import define
from mase_hw.ops._unary import Unary
from mase_hw.ops.functions.table import EXP, LOG
from mase_hw.ops.reductions._reduce import Reduction, reduce_cell

MIN_FRACTION_BITS = 6


def log_sum(values: Tensor, dim: list[int], keepdim: bool = False) -> Tensor:
    """Return the logarithm of sums of exponentials, which end at 2."""
    return torch.log(torch.exp(values.clamp(max=log(2))).sum(dim, keepdim))


define("log_sum(Tensor self, int[] dim, bool keepdim=False) -> Tensor", log_sum)


class LogSum(Reduction, Numeric, Exact, Judged):
    """`y = log(sum exp(d))`, `d <= 0`."""

    row_unit = "offset"
    name = "log_sum"
    targets = ("mase.log_sum.default",)
    approximates = True
    exact_everywhere = False

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        """Return numbers from 0 to the logarithm of the terms, in steps of an eighth."""
        places = min(fraction + 3, MAX_WIDTH_BITS - 8)
        return Fixed(places + 2 + self._growth(call).bit_length(), places)

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if not problems:
            problems = [
                problem
                for operator, part in (self._exponential(call), self._logarithm(call))
                for problem in operator.problems(part)
            ]
        return problems

    def reference(self, call: Call) -> Reference:
        exponential, logarithm = (
            operator.reference(part)
            for operator, part in (self._exponential(call), self._logarithm(call))
        )
        dims, shape = self.dims(call), call.result.shape
        return lambda codes: logarithm(exponential(codes).sum(dims)).reshape(-1, *shape[1:])

    def hardware(self, call: Call) -> Netlist:
        net = NetlistBuilder(call.ports)
        wire = net.input("data_in_0")
        wire = net.add(_unary_cell(*self._exponential(call)), "exponential", data_in_0=wire)
        terms, run = self._terms(call), self.run(call)
        quotient = Quotient(self._fraction(call), 1, self._sums(call))
        width = fixed(terms).width + 1 + (self._count(call) - 1).bit_length()
        cell = reduce_cell(terms, run, width, quotient, maximum=False)
        wire = net.add(cell, "sum", data_in_0=wire)
        return net.netlist(data_out_0=net.add(_unary_cell(*self._logarithm(call)), data_in_0=wire))

    def operations(self, call: Call) -> int:
        return 2 * call.operands["data_in_0"].elements

    def _count(self, call: Call) -> int:
        shape = call.operands["data_in_0"].shape
        return prod(shape[dim] for dim in self.dims(call))

    def _growth(self, call: Call) -> int:
        return max(1, (self._count(call) - 1).bit_length())

    def _fraction(self, call: Call) -> int:
        """Fraction bits of exponentials, which have one bit more."""
        growth = self._growth(call)
        wanted = max(MIN_FRACTION_BITS, fixed(call.result).frac_width) + 2 + growth
        return min(wanted, MAX_WIDTH_BITS - 1 - growth)

    def _sums(self, call: Call) -> Fixed:
        fraction = self._fraction(call)
        return Fixed(1 + self._growth(call) + fraction, fraction, signed=False)

    def _terms(self, call: Call) -> TensorSpec:
        fraction = self._fraction(call)
        form = Fixed(1 + fraction, fraction, signed=False)
        return call.operands["data_in_0"].with_format(form)

    def _exponential(self, call: Call) -> tuple[Unary, Call]:
        return EXP, _part(call, EXP, call.operands["data_in_0"], self._terms(call))

    def _logarithm(self, call: Call) -> tuple[Unary, Call]:
        return LOG, _part(call, LOG, call.result.with_format(self._sums(call)), call.result)

    def examples(self) -> list[Example]:
        x, target = example_values(3, 5, 7), torch.ops.mase.log_sum
        return [
            example(lambda x: target(x - x.amax(-1, keepdim=True), [-1]), x),
            example(lambda x: target(x - x.amax(1, keepdim=True), [1], True), x),
        ]


def _part(call: Call, operator: Unary, data: TensorSpec, result: TensorSpec) -> Call:
    return Call(call.name, operator, {"data_in_0": data}, {"data_out_0": result})


def _unary_cell(operator: Unary, call: Call) -> Cell:
    return elements_of(call).unary_cell(operator.evaluator(call))
