"""A function as a table over bit patterns, for floats, scaled integers, fixed point beside them.

Tables have operands of at most `MAX_TABLE_INPUT_BITS`, and results are correctly rounded; in steps
of a real scale, unless they lie within `2**-20` of a step beside the half of two. A result
that is exactly zero is plus zero. At infinite operands the function is what its equation gives in
float64 arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.approximation.round_to_odd import rounded_to_odd
from mase_hw.approximation.rounding import RealFunction
from mase_hw.arithmetic.floats import encode, precision_bits
from mase_hw.formats import Format


@dataclass(frozen=True)
class PatternTable:
    """The results for every operand.

    Attributes:
        codes: int64 result codes by the bit pattern of the operand.
    """

    operand: Format
    result: Format
    codes: Tensor

    @classmethod
    def tabulate(cls, function: RealFunction, operand: Format, result: Format) -> PatternTable:
        """Compute the table of a real function."""
        patterns = torch.arange(1 << operand.stream_fields(1)[0].width_bits)
        x = operand.decode(operand.from_fields({"": patterns}))
        values, is_nan = rounded_to_odd(function, x, precision_bits(result) + 2)
        never = torch.zeros_like(is_nan)
        return cls(operand, result, encode(result, values, is_nan, never))

    def evaluate(self, codes: Tensor) -> Tensor:
        """Return the result codes of operand codes."""
        return self.codes[self.operand.to_fields(codes)[""]]

    @property
    def words(self) -> tuple[int, ...]:
        """The bit patterns of the memory."""
        return tuple(self.result.to_fields(self.codes)[""].tolist())
