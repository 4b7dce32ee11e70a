"""Element-wise operators on floats, and on fixed point beside them.

Sums, differences and products are those of `mase_hw.arithmetic.floats`; functions of one operand
are tables over its bit patterns, see `mase_hw.approximation.pattern_table`, those of integers with
a real scale too.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mase_hw.approximation.domain import Function
from mase_hw.approximation.table import MAX_TABLE_INPUT_BITS, PatternTable
from mase_hw.arithmetic import floats
from mase_hw.arithmetic.requantize import operand_problems
from mase_hw.arithmetic.scaled import MAX_BITS, combined_bits, guard_bits
from mase_hw.cells import Image, Operation
from mase_hw.cells.binary_float import BinaryFloat
from mase_hw.cells.unary_table import UnaryTable
from mase_hw.formats import Format
from mase_hw.formats.fixed import Fixed
from mase_hw.ops._elements import Elements
from mase_hw.ops._one_cell import fields


class FloatElements(Elements[PatternTable]):
    """Numbers with exponents of their own."""

    def _result_problems(self) -> list[str]:
        result = self.call.result.format
        if isinstance(result, Fixed) and result.overflow == "wrap":
            return [f"data_out_0 is {result}, which wraps; beside floats results must saturate"]
        return []

    def binary_problems(self, operation: str) -> list[str]:
        """Refuse results that wrap, and exact ones beyond 62 bits."""
        problems = self._result_problems()
        width = combined_bits(operation, *self._bits, self._guard)
        if not problems and width > MAX_BITS:
            problems.append(
                f"the exact result takes {width} bits, at most {MAX_BITS} are supported"
            )
        return problems

    @property
    def _formats(self) -> tuple[Format, Format]:
        operands = self.call.operands
        return operands["data_in_0"].quantized, operands["data_in_1"].quantized

    @property
    def _bits(self) -> tuple[int, int]:
        first, second = self._formats
        return floats.integer_bits(first), floats.integer_bits(second)

    @property
    def _guard(self) -> int:
        return guard_bits(*self._bits, floats.precision_bits(self.call.result.quantized))

    def decode(self, operand: str, codes: Tensor) -> floats.Decoded:
        return floats.decode(self.call.operands[operand].quantized, codes)

    def combination(self, operation: str) -> Callable[[floats.Decoded, floats.Decoded], Tensor]:
        guard, result = self._guard, self.call.result.quantized
        return lambda left, right: floats.combine(left, right, operation, guard, result)

    def binary_cell(self, operation: str) -> BinaryFloat:
        first, second = self._formats
        result = self.call.result.quantized
        return BinaryFloat(
            *fields(self.call),
            second.encoding,
            Operation[operation.upper()],
            floats.has_infinity(first),
            floats.has_infinity(second),
            floats.overflow_code(result),
            floats.nan_code(result),
            self._guard,
            beats=self.call.result.beats,
        )

    def unary_problems(self) -> list[str]:
        problems = self._result_problems()
        for name, spec in {**self.call.operands, **self.call.results}.items():
            problems += operand_problems(name, spec)
        operand = self.call.operands["data_in_0"].quantized
        if operand.stream_fields(1)[0].width_bits > MAX_TABLE_INPUT_BITS:
            problems.append(
                f"data_in_0 is {operand}: beside floats, functions are tables of operands of at "
                f"most {MAX_TABLE_INPUT_BITS} bits"
            )
        return problems

    @staticmethod
    def fit(function: Function, operand: Format, result: Format) -> PatternTable:
        return PatternTable.tabulate(function, operand, result)

    def unary_cell(self, evaluator: PatternTable) -> UnaryTable:
        words = Image(evaluator.result.encoding.width, lambda: evaluator.words)
        return UnaryTable(*fields(self.call), words, beats=self.call.result.beats)
