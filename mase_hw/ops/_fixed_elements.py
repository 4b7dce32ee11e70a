"""Element-wise operators on fixed point.

Sums, differences and products are exact and rounded once. Functions of one operand of up to 12
bits are tables of correctly rounded results; wider ones go through piecewise quadratics whose
result is at most one step from the correctly rounded one, or `RELATIVE_ERROR` of the value where
that takes too many segments; bounds need neither. Sines of more than a turn are a phase and a
quarter wave.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mase_hw.approximation.domain import Function
from mase_hw.approximation.piecewise import GUARD_BITS, Piecewise, fit
from mase_hw.approximation.table import MAX_TABLE_INPUT_BITS, Bounded, FunctionTable
from mase_hw.approximation.wave import Wave, exceeds_a_turn, fit_wave
from mase_hw.arithmetic.fixed_point import combine, combined_bits, fixed, too_wide
from mase_hw.cells import Cell, Image, Operation
from mase_hw.cells.binary_fixed import BinaryFixed
from mase_hw.cells.clamp_fixed import ClampFixed
from mase_hw.cells.phase import Phase
from mase_hw.cells.unary_piecewise import UnaryPiecewise
from mase_hw.cells.unary_table import UnaryTable
from mase_hw.formats import Encoding
from mase_hw.formats.fixed import Fixed
from mase_hw.ops._elements import Elements
from mase_hw.ops._one_cell import fields

FixedFunction = FunctionTable | Piecewise | Bounded | Wave


class FixedElements(Elements[FixedFunction]):
    """Integers in units of a power of two."""

    def binary_problems(self, operation: str) -> list[str]:
        first, second = self._formats
        return too_wide(
            lambda data_in_0, data_in_1: combined_bits(operation, data_in_0, data_in_1),
            data_in_0=first,
            data_in_1=second,
        )

    @property
    def _formats(self) -> tuple[Fixed, Fixed]:
        operands = self.call.operands
        return fixed(operands["data_in_0"]), fixed(operands["data_in_1"])

    def decode(self, operand: str, codes: Tensor) -> Tensor:
        return codes

    def combination(self, operation: str) -> Callable[[Tensor, Tensor], Tensor]:
        formats, result = self._formats, self.call.result.quantized
        return lambda first, second: result.from_fixed(*combine(first, second, operation, formats))

    def binary_cell(self, operation: str) -> BinaryFixed:
        second = self.call.operands["data_in_1"].quantized.encoding
        kind = Operation[operation.upper()]
        return BinaryFixed(*fields(self.call), second, kind, beats=self.call.result.beats)

    @staticmethod
    def fit(function: Function, operand: Fixed, result: Fixed) -> FixedFunction:
        if function.bounds and (bounded := Bounded.between(function.bounds, operand, result)):
            return bounded
        if operand.width <= MAX_TABLE_INPUT_BITS:
            return FunctionTable.tabulate(function, operand, result)
        if function.quarters is not None and exceeds_a_turn(operand):
            return fit_wave(function, operand, result)
        return fit(function, function.knots, operand, result, function.name, function.steep)

    def unary_cell(self, evaluator: FixedFunction) -> Cell:
        beats = self.call.result.beats
        if isinstance(evaluator, Wave):
            evaluator = evaluator.quarter
        if isinstance(evaluator, Piecewise):
            _, result, lanes = fields(self.call)
            return _piecewise_cell((evaluator.operand.encoding, result, lanes), evaluator, beats)
        if isinstance(evaluator, Bounded):
            low, high = _as_int32(evaluator.low), _as_int32(evaluator.high)
            return ClampFixed(*fields(self.call), low, high, evaluator.on_result, beats=beats)
        words = Image(evaluator.result.encoding.width, lambda: evaluator.words)
        return UnaryTable(*fields(self.call), words, beats=beats)

    def operand_cell(self, evaluator: FixedFunction) -> Cell | None:
        if not isinstance(evaluator, Wave):
            return None
        data, _, lanes = fields(self.call)
        phase, place = evaluator.phase, evaluator.quarter.operand.encoding
        low, high = _as_int32(phase.rate & 0xFFFFFFFF), _as_int32(phase.rate >> 32)
        beats = self.call.result.beats
        return Phase(data, place, lanes, phase.bits, low, high, phase.quarters, beats=beats)


def _piecewise_cell(
    given: tuple[Encoding, Encoding, int], piecewise: Piecewise, beats: int
) -> UnaryPiecewise:
    """Return the polynomial's cell; knots are offset so that they are signed 32-bit numbers."""
    operand, regions, grid = piecewise.operand, piecewise.regions, piecewise.grid
    offset = 0 if operand.signed else 1 << (operand.width - 1)
    return UnaryPiecewise(
        *given,
        len(regions),
        sum(not region.upward for region in regions),
        tuple(region.low - offset for region in regions[1:]),
        piecewise.bases,
        grid.u_width,
        grid.base_exponent,
        grid.index_bits,
        len(piecewise.coefficients),
        *piecewise.widths,
        piecewise.slope_bits,
        piecewise.sum_bits,
        GUARD_BITS,
        Image(sum(piecewise.widths), lambda: piecewise.words),
        piecewise.odd,
        beats=beats,
    )


def _as_int32(code: int) -> int:
    return code - (1 << 32) if code >= 1 << 31 else code
