"""Quotients of whole numbers by a constant: `y = trunc(x / d)`, exact.

It is a product with `ceil(2**s / d)`, whose lower `s` bits are lost. With `s` the bits of `x` and
`d` together, it is too large by less than `1 / d`, which reaches no other whole number.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Netlist
from mase_hw.cells.cast_mixed import CastMixed
from mase_hw.formats import FIXED_POINT, Format, Rounding
from mase_hw.ops._base import Apply, Call, Example, Operator, Reference
from mase_hw.ops._library import define
from mase_hw.ops._numbers import Exact, WholeNumbers
from mase_hw.ops._one_cell import one_cell, row_fields
from mase_hw.ops._tiling import Elementwise

MAX_OPERAND_BITS = 30


def _quotient(values: Tensor, divisor: int) -> Tensor:
    return torch.div(values, divisor, rounding_mode="trunc")


define("quotient(Tensor self, int divisor) -> Tensor", _quotient, opaque=True)


class Quotient(Operator, Elementwise, WholeNumbers, Exact):
    """The divisor is above zero; a quotient is rounded toward zero."""

    name = "quotient"
    targets = ("mase.quotient.default",)
    families = FIXED_POINT
    exact_everywhere = False

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        return replace(fixed(call.operands["data_in_0"]), frac_width=0)

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        data = call.operands["data_in_0"].format
        if not problems and fixed(call.operands["data_in_0"]).frac_width:
            problems.append(f"it divides whole numbers, not {data}")
        elif not problems and fixed(call.operands["data_in_0"]).width > MAX_OPERAND_BITS:
            problems.append(f"it divides {data}; at most {MAX_OPERAND_BITS} bits are divided")
        return problems

    def reference(self, call: Call) -> Reference:
        result, divisor = call.result.quantized, int(call.attributes["divisor"])
        return lambda codes: result.from_fixed(_quotient(codes, divisor), 0)

    def hardware(self, call: Call) -> Netlist:
        """Return a cast of multiples that loses their lower bits."""
        divisor = int(call.attributes["divisor"])
        shift = fixed(call.operands["data_in_0"]).width + divisor.bit_length()
        multiplier = -(-(1 << shift) // divisor)
        data, result, lanes, rows, length = row_fields(call)
        result = replace(result, rounding=Rounding.TOWARD_ZERO)
        factor = multiplier.bit_length(), multiplier, shift
        cell = CastMixed(data, result, lanes, rows, length, *factor, beats=call.result.beats)
        return one_cell(call, cell)

    def examples(self) -> list[Example]:
        x = torch.randint(0, 99, (3, 7), generator=torch.Generator().manual_seed(0))
        return [
            (Apply(lambda x: torch.div(x, 5, rounding_mode="trunc")), (x - 50,)),
            (Apply(lambda x: x // 7), (x,)),
        ]
