"""Element-wise operators on floats, and on fixed point beside them.

Sums, differences and products are exact and rounded once, as the result's format says. NaN goes
through; `inf - inf` and `0 * inf` are NaN. Where the result's format has no NaN it becomes the
largest number, and where it has no infinity, or saturates, infinities do, too. Zero has the sign
that IEEE 754-2019, section 6.3, gives it: that of both operands of a sum, plus where they
differ; the product of the signs; that of a nonzero result that is rounded to zero.

Functions of one operand are tables over its bit patterns, of at most 12 bits, correctly rounded.
A result that is exactly zero is plus zero. At infinite operands the function is what its equation
gives in float64 arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.cells._operation import Operation
from mase_hw.cells.binary_float import BinaryFloat
from mase_hw.formats import Format
from mase_hw.formats._minifloat import FloatFormat
from mase_hw.formats.fixed import Fixed
from mase_hw.ops._base import Call, Reference
from mase_hw.ops._elementwise import (
    Decoded,
    decode,
    encode,
    fields,
    integer_bits,
    nan_code,
    precision_bits,
)
from mase_hw.ops._scaled import MAX_BITS, combined_bits, guard_bits
from mase_hw.ops._unary_odd import rounded_to_odd
from mase_hw.ops._unary_rounding import RealFunction
from mase_hw.ops._unary_table import MAX_TABLE_INPUT_BITS


def result_problems(call: Call) -> list[str]:
    """Return why results cannot be rounded; empty when they can."""
    result = call.result.format
    if isinstance(result, Fixed) and result.overflow == "wrap":
        return [f"data_out_0 is {result}, which wraps; beside floats results must saturate"]
    return []


def binary_problems(call: Call, operation: str) -> list[str]:
    """Return what stands between a sum or product and hardware."""
    found = result_problems(call)
    width = _width(call, operation)
    if not found and width > MAX_BITS:
        found.append(f"the exact result takes {width} bits, at most {MAX_BITS} are supported")
    return found


def binary_reference(call: Call, operation: str) -> Reference:
    """Return codes -> codes; constants are encoded once."""
    formats = {name: spec.quantized for name, spec in call.operands.items()}
    constants = {name: decode(formats[name], call.constant_codes(name)) for name in call.constants}
    streams, result, guard = list(call.streams), call.result.quantized, _guard(call)

    def compute(*codes: Tensor) -> Tensor:
        given = zip(streams, codes, strict=True)
        operands = {**constants, **{name: decode(formats[name], item) for name, item in given}}
        return _combine(operands["data_in_0"], operands["data_in_1"], operation, guard, result)

    return compute


def _combine(left: Decoded, right: Decoded, operation: str, guard: int, result: Format) -> Tensor:
    values = left.values.combine(right.values, operation, guard)
    flipped = right.is_negative != torch.tensor(operation == "subtract")
    if operation == "multiply":
        left_zero, right_zero = left.values.integers == 0, right.values.integers == 0
        undefined = (left.is_infinite & right_zero) | (left_zero & right.is_infinite)
        negative = left.is_negative ^ right.is_negative
    else:
        undefined = left.is_infinite & right.is_infinite & (left.is_negative != flipped)
        negative = left.is_negative & flipped
    return encode(result, values, undefined | left.is_nan | right.is_nan, negative)


def _bits(call: Call) -> tuple[int, int]:
    first, second = (call.operands[name].quantized for name in ("data_in_0", "data_in_1"))
    return integer_bits(first), integer_bits(second)


def _guard(call: Call) -> int:
    return guard_bits(*_bits(call), precision_bits(call.result.quantized))


def _width(call: Call, operation: str) -> int:
    return combined_bits(operation, *_bits(call), _guard(call))


def binary_cell(call: Call, operation: str) -> BinaryFloat:
    """Return the cell of a sum or product."""
    first, second = (call.operands[name].quantized for name in ("data_in_0", "data_in_1"))
    result = call.result.quantized
    return BinaryFloat(
        *fields(call),
        second.encoding,
        Operation[operation.upper()],
        _has_infinity(first),
        _has_infinity(second),
        _overflow_code(result),
        nan_code(result),
        _guard(call),
        beats=call.result.beats,
    )


def _has_infinity(number: Format) -> bool:
    return isinstance(number, FloatFormat) and number.layout.specials == "ieee"


def _overflow_code(number: Format) -> int:
    """Return the magnitude that stands for overflow in a result."""
    if not isinstance(number, FloatFormat):
        return 0
    layout = number.layout
    saturates = layout.saturate or layout.specials == "none"
    return layout.maximum_code if saturates else layout.infinity_code


@dataclass(frozen=True)
class PatternTable:
    """A function as a table over bit patterns.

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


def unary_problems(call: Call) -> list[str]:
    """Return what stands between a function and hardware."""
    found = result_problems(call)
    operand = call.operands["data_in_0"].quantized
    width = operand.stream_fields(1)[0].width_bits
    if width > MAX_TABLE_INPUT_BITS:
        found.append(
            f"data_in_0 is {operand}: beside floats, functions are tables of operands of at most "
            f"{MAX_TABLE_INPUT_BITS} bits"
        )
    return found
