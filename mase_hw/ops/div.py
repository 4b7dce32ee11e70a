"""Division by a power of two, `y = x / 2**k` (torch.div), rounded once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Netlist
from mase_hw.cells.cast_fixed import CastFixed
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._base import Apply, Call, Example, Operator, Reference, example_values
from mase_hw.ops._one_cell import fields, one_cell


class Div(Operator):
    """The divisor is a number, not a stream; a negative one changes the sign."""

    name: ClassVar[str] = "div"
    targets: ClassVar[tuple[str, ...]] = ("aten.div.Tensor", "aten.div.Scalar")

    def bind(
        self,
        name: str,
        arguments: Mapping[str, Any],
        operands: Mapping[str, TensorSpec],
        results: Mapping[str, TensorSpec],
        constants: Mapping[str, Tensor],
    ) -> Call:
        """Take a constant divisor of one element for an attribute."""
        divisor = constants.get("data_in_1")
        if divisor is None or divisor.numel() != 1 or "data_in_0" in constants:
            return super().bind(name, arguments, operands, results, constants)
        known = {**arguments, "divisor": float(divisor)}
        return Call(name, self, {"data_in_0": operands["data_in_0"]}, results, {}, known)

    def problems(self, call: Call) -> list[str]:
        """Also refuse divisors that are no power of two."""
        divisor = call.attributes.get("divisor")
        if divisor is None:
            return [*super().problems(call), "it divides by a tensor; only numbers are legal"]
        if divisor == 0 or math.frexp(abs(divisor))[0] != 0.5:
            return [f"it divides by {divisor}, no power of two; multiply by {_inverse(divisor)}"]
        return super().problems(call)

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes."""
        fraction = fixed(call.operands["data_in_0"]).frac_width + self._shift(call)
        sign = -1 if call.attributes["divisor"] < 0 else 1
        result = call.result.quantized
        return lambda codes: result.from_fixed(codes * sign, fraction)

    def hardware(self, call: Call) -> Netlist:
        """Return a cast of the same codes with more fraction bits."""
        data, result, lanes = fields(call)
        quotient = replace(data, fraction=data.fraction + self._shift(call))
        negate = call.attributes["divisor"] < 0
        return one_cell(call, CastFixed(quotient, result, lanes, negate, beats=call.result.beats))

    @staticmethod
    def _shift(call: Call) -> int:
        return math.frexp(abs(call.attributes["divisor"]))[1] - 1

    def examples(self) -> list[Example]:
        """By 4, and by -1/2."""
        return [
            (Apply(lambda x: x / 4), (example_values(3, 5),)),
            (Apply(lambda x: torch.div(x, -0.5)), (example_values(3, 5),)),
        ]


def _inverse(divisor: float) -> str:
    return f"{1 / divisor:.6g}" if divisor else "a finite number"
