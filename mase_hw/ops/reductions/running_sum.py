"""Sums of whole numbers up to each, along the last dimension (torch.cumsum), exact.

A result has the bits of an element and those by which a row of the largest may exceed it, so that
nothing overflows.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Netlist
from mase_hw.cells.running_sum import RunningSum as RunningSumCell
from mase_hw.formats import Format
from mase_hw.formats.fixed import MAX_EXACT_BITS
from mase_hw.ops._base import Call, Example, Reference, example
from mase_hw.ops._library import define
from mase_hw.ops._numbers import Exact, WholeNumbers
from mase_hw.ops.reductions._reduce import Rows

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
