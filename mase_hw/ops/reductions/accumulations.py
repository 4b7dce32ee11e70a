"""Largest elements, means and sums over dimensions.

Index of the largest element along a dimension (torch.argmax); the first of equals.

The result is a whole number without sign, of as many bits as the largest index takes.

Sums of whole numbers up to each, along the last dimension (torch.cumsum), exact.

A result has the bits of an element and those by which a row of the largest may exceed it, so that
nothing overflows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Netlist
from mase_hw.cells.argmax import Argmax as ArgmaxCell
from mase_hw.cells.running_sum import RunningSum as RunningSumCell
from mase_hw.formats import Format, make_format
from mase_hw.formats.fixed import MAX_EXACT_BITS, MIN_WIDTH_BITS
from mase_hw.ops._base import Call, Example, Reference, example
from mase_hw.ops._interfaces import Exact, Numeric, Rescaled, Selecting, WholeNumbers
from mase_hw.ops._library import define
from mase_hw.ops.reductions._reduce import Accumulation, Reduction, Rows


class Amax(Accumulation, Selecting, Numeric):
    """Largest element over dimensions (torch.amax)."""

    name = "amax"
    targets = ("aten.amax.default", "aten.max.default")
    maximum = True
    keeps_format = True

    def divisor(self, call: Call) -> int:
        return 1

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.amax(-1), (2, 3, 7)),
            example(lambda x: x.amax((2, 3), keepdim=True), (2, 5, 3, 2)),
        ]


class Mean(Accumulation):
    """Mean over dimensions (torch.mean): an exact sum divided by the count, rounded once."""

    name = "mean"
    targets = ("aten.mean.dim", "aten.mean.default")

    def divisor(self, call: Call) -> int:
        shape = call.operands["data_in_0"].shape
        return prod(shape[dim] for dim in self.dims(call))

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.mean((2, 3)), (2, 5, 3, 2)),
            example(lambda x: x.mean(-1, keepdim=True), (2, 3, 7)),
        ]


class Sum(Accumulation, Numeric):
    """Sum over dimensions (torch.sum), exact and rounded once."""

    name = "sum"
    targets = ("aten.sum.dim_IntList",)

    def result_format(self, call: Call) -> Format | None:
        if call.operands["data_in_0"].dtype != "bool" or not call.result.dtype.startswith("int"):
            return None
        shape = call.operands["data_in_0"].shape
        width = prod(shape[dim] for dim in self.dims(call)).bit_length()
        fields = {"width": max(MIN_WIDTH_BITS, width), "frac_width": 0, "signed": False}
        return make_format({"name": "fixed", **fields})

    def divisor(self, call: Call) -> int:
        return 1

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.sum(-1), (2, 3, 7)),
            example(lambda x: x.sum(1, keepdim=True), (2, 3, 4)),
            example(lambda x: x.sum((1, 2)), (2, 2, 5)),
            example(lambda x: (x > 0).sum(-1), (2, 3, 5)),
        ]


class Argmax(Reduction, Selecting, Numeric, Rescaled):
    """`y = min { i : x[i] = max x }`."""

    name = "argmax"
    targets = ("aten.argmax.default",)
    casts = False

    def result_format(self, call: Call) -> Format | None:
        shape = call.operands["data_in_0"].shape or (1,)
        size = max(shape[dim] for dim in self.dims(call))
        width = max(MIN_WIDTH_BITS, (size - 1).bit_length())
        return make_format({"name": "fixed", "width": width, "frac_width": 0, "signed": False})

    def in_units(self, call: Call, operands: Mapping[str, Tensor], unit: float) -> Tensor:
        given = call.attributes
        return aten.argmax.default(operands["data_in_0"], given["dim"], given["keepdim"])

    def reference(self, call: Call) -> Reference:
        (dim,) = self.dims(call)
        shape = call.result.shape

        def compute(codes: Tensor) -> Tensor:
            moved = codes.movedim(dim, -1)
            size = moved.shape[-1]
            largest = moved == moved.amax(-1, keepdim=True)
            indices = torch.where(largest, torch.arange(size), size)
            return indices.amin(-1).reshape(-1, *shape[1:])

        return compute

    def hardware(self, call: Call) -> Netlist:
        data, run = call.operands["data_in_0"], self.run(call)
        lanes, index = data.parallelism[1], call.result.quantized.encoding
        row = run.row if lanes > 1 else 0
        cell = ArgmaxCell(
            data.quantized.encoding, lanes, index.width, row, run.terms, run.inner, data.beats
        )
        return Netlist.single(call.ports, cell)

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.argmax(1), (2, 10)),
            example(lambda x: x.argmax(1, keepdim=True), (2, 3, 4)),
        ]


define("running_sum(Tensor self) -> Tensor", lambda values: values.cumsum(-1))


class RunningSum(Rows, Exact, WholeNumbers):
    """`y[i] = x[0] + ... + x[i]`."""

    name = "running_sum"
    targets = ("mase.running_sum.default",)
    approximates = False
    exact_everywhere = False

    def dim(self, call: Call) -> int:
        return max(0, len(call.operands["data_in_0"].shape) - 1)

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        data, growth = fixed(call.operands["data_in_0"]), (call.result.shape[-1] - 1).bit_length()
        width = data.width + growth
        return None if width > MAX_EXACT_BITS else replace(data, width=width)

    def reference(self, call: Call) -> Reference:
        return lambda codes: codes.cumsum(-1)

    def hardware(self, call: Call) -> Netlist:
        data, result = call.operands["data_in_0"], call.result
        row, width = data.shape[-1], result.quantized.encoding.width
        cell = RunningSumCell(data.quantized.encoding, row, width, data.beats)
        return Netlist.single(call.ports, cell)

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return {(name, dim): 1 for name in ("data_in_0", "data_out_0") for dim in (0, 1)}

    def examples(self) -> list[Example]:
        generator = torch.Generator().manual_seed(0)
        kept = torch.randint(0, 2, (3, 6), generator=generator)
        numbers = torch.randint(-9, 9, (3, 2, 5), generator=generator)
        return [
            example(lambda x: x.cumsum(-1), kept),
            example(lambda x: x.cumsum(2), numbers),
        ]
