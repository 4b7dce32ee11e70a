"""A function as a table: one correctly rounded word for every code of its operand.

A function as a table over bit patterns, for floats, scaled integers, fixed point beside them.

Tables have operands of at most `MAX_TABLE_INPUT_BITS`, and results are correctly rounded; in steps
of a real scale, unless they lie within `2**-20` of a step beside the half of two. A result
that is exactly zero is plus zero. At infinite operands the function is what its equation gives in
float64 arithmetic.

Functions `min(max(x, low), high)` in fixed point, which need no table at any width.

Rounding and saturation are monotone, so that they commute with the bounds: where the result
saturates, the cast result is bounded by the cast bounds. Where it wraps, the operand's codes are
bounded, which needs bounds that are codes; others fall back to the table or the polynomial.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mase_hw.approximation.round_to_odd import rounded_to_odd
from mase_hw.approximation.rounding import RealFunction, correctly_rounded
from mase_hw.arithmetic.floats import encode, precision_bits
from mase_hw.formats import Format
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


@dataclass(frozen=True)
class Bounded:
    """Bounds as codes.

    Attributes:
        low: the smallest code.
        high: the largest code.
        on_result: whether they are codes of the result, else of the operand.
    """

    operand: Fixed
    result: Fixed
    low: int
    high: int
    on_result: bool

    @classmethod
    def between(cls, bounds: tuple[float, float], operand: Fixed, result: Fixed) -> Bounded | None:
        """Cast and bounds that are exact for these formats, or None."""
        low, high = bounds
        # As torch does: where the bounds are the wrong way round, the upper one is the value.
        low = min(low, high)
        if result.overflow == "saturate":
            codes = result.encode(torch.tensor([low, high], dtype=torch.float64)).tolist()
            return cls(operand, result, codes[0], codes[1], on_result=True)
        scale = 2.0**operand.frac_width
        bounded = [max(operand.minimum_code, low * scale), min(operand.maximum_code, high * scale)]
        if any(code != int(code) for code in bounded) or bounded[0] > bounded[1]:
            return None
        return cls(operand, result, int(bounded[0]), int(bounded[1]), on_result=False)

    def evaluate(self, codes: Tensor) -> Tensor:
        """Return the result codes of operand codes."""
        fraction = self.operand.frac_width
        if self.on_result:
            return self.result.from_fixed(codes, fraction).clamp(self.low, self.high)
        return self.result.from_fixed(codes.clamp(self.low, self.high), fraction)
