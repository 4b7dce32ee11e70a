"""A function as a table: one correctly rounded word for every code of its operand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mase_hw.approximation.rounding import RealFunction, correctly_rounded
from mase_hw.formats.fixed import Fixed

MAX_TABLE_INPUT_BITS = 12


@dataclass(frozen=True)
class FunctionTable:
    """The results for every operand code.

    Attributes:
        codes: int64 result codes `[2**operand.width]`, of the smallest operand code first.
    """

    operand: Fixed
    result: Fixed
    codes: Tensor

    @classmethod
    def tabulate(cls, function: RealFunction, operand: Fixed, result: Fixed) -> FunctionTable:
        """Compute the table of a real function."""
        codes = torch.arange(operand.minimum_code, operand.maximum_code + 1)
        return cls(operand, result, correctly_rounded(function, codes, operand, result))

    def evaluate(self, codes: Tensor) -> Tensor:
        """Return the result codes of operand codes."""
        return self.codes[codes - self.operand.minimum_code]

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The bit patterns of the memory, by the bit pattern of the operand."""
        by_pattern = self.codes.roll(self.operand.minimum_code)
        return tuple(self.result.to_fields(by_pattern)[""].tolist())
