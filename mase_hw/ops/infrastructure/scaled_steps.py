"""Integers with a real scale in steps of another one, and back.

In steps of a result, a value is `(code - zero_point) * m * 2**-s`, where `m * 2**-s` stands for the
quotient of the two scales, see `mase_hw.arithmetic.requantize`; nothing is rounded. Where what is
computed of values is so many times as large for values that are so many times as large, as a sum
or a largest element is, it is computed of steps, and rounded to whole ones around the zero point.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mase_hw.arithmetic import requantize as scaled
from mase_hw.arithmetic.carriers import fixed_of
from mase_hw.cells import Netlist
from mase_hw.cells.cast_mixed import CastMixed
from mase_hw.formats import SCALED, Format, make_format
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.ops._base import Attributes, Call, Example, Operator, Reference, example
from mase_hw.ops._interfaces import Numeric
from mase_hw.ops._library import define
from mase_hw.ops._one_cell import one_cell, row_fields
from mase_hw.ops.infrastructure.fake_quantize import rounded_to


def _in_steps(values: Tensor, scale: float, back: bool, bits: int = 0) -> Tensor:
    return values * scale if back else values / scale


define(
    "scaled_steps(Tensor self, float scale, bool back, int bits=0) -> Tensor",
    _in_steps,
    opaque=True,
)


def whole_steps(values: Tensor, number: ScaledInteger) -> Tensor:
    """Return values of a format in its steps, whole numbers of fixed point.

    Args:
        values: real numbers of the format.
        number: the format, of one scale.
    """
    found: Tensor = torch.ops.mase.scaled_steps(values, float(number.real_scale), False)
    whole = _whole(number, 1, 0)
    assert whole is not None
    return rounded_to(found, whole)


def _whole(number: ScaledInteger, factor: int, shift: int) -> Fixed | None:
    """Return fixed point that holds all steps of a format, times a factor."""
    return fixed_of(scaled.whole(number).width + factor.bit_length() * (factor > 1) + 1, shift)


class ScaledSteps(Operator, Numeric):
    """Steps of a scale as fixed point, or codes of such steps again (`back`).

    The quotient of the scales has `bits` bits, as many as a layer's when they are 0.
    """

    name = "scaled_steps"
    targets = ("mase.scaled_steps.default",)
    role = "steps"
    families = SCALED

    def result_format(self, call: Call) -> Format | None:
        given = call.operands["data_in_0"].format
        if call.attributes["back"]:
            scale = float(call.attributes["scale"])
            return make_format({"name": "scaled_integer", "width": 8, "scale": scale})
        if not isinstance(given, ScaledInteger) or isinstance(given.scale, tuple):
            return None
        return _whole(given, *self._factor(call))

    def problems(self, call: Call) -> list[str]:
        given, result = call.operands["data_in_0"].format, call.result.format
        back = bool(call.attributes["back"])
        integers, steps = (result, given) if back else (given, result)
        if not isinstance(integers, ScaledInteger) or not isinstance(steps, Fixed):
            return [f"it takes integers with a scale to steps, not {given} to {result}"]
        if back and integers.scale != call.attributes["scale"]:
            return [f"its result is {result}, of another scale than {call.attributes['scale']}"]
        if not back and steps != self.result_format(call):
            return [f"its result is {result}, which is not {self.result_format(call)}"]
        name = "data_out_0" if back else "data_in_0"
        return scaled.operand_problems(name, {**call.operands, **call.results}[name])

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        return _in_steps(operands["data_in_0"], arguments["scale"], arguments["back"])

    def reference(self, call: Call) -> Reference:
        given, result = call.operands["data_in_0"].quantized, call.result.quantized
        if call.attributes["back"]:
            unit = result.unscaled()
            return lambda codes: unit.from_scaled(*given.significands(codes))
        factor, shift = self._factor(call)
        return lambda codes: result.from_fixed(given.significands(codes)[0] * factor, shift)

    def hardware(self, call: Call) -> Netlist:
        factor, shift = self._factor(call)
        steps = factor, shift
        multiplier = (0, 1, 0) if steps == (1, 0) else (factor.bit_length(), *steps)
        return one_cell(call, CastMixed(*row_fields(call), *multiplier, beats=call.result.beats))

    def operations(self, call: Call) -> int:
        return 0

    def examples(self) -> list[Example]:
        target = torch.ops.mase.scaled_steps.default
        return [example(lambda x: target(x, 0.03, False), (3, 11))]

    @staticmethod
    def _factor(call: Call) -> tuple[int, int]:
        """Return multiplier and shift of an operand's scale; 1 for the same one, or back."""
        if call.attributes["back"]:
            return 1, 0
        bits = int(call.attributes.get("bits", 0))
        given = call.operands["data_in_0"].quantized
        return scaled.step_quotient(given, float(call.attributes["scale"]), bits)
