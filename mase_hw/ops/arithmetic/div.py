"""Division, `y = x / d` (torch.div).

By a power of two it is rounded once. By another constant it is a product with its inverse, and by a
stream a product with its reciprocal, which is rounded before. What is rounded to whole numbers is
the rounded quotient; of whole numbers and a constant it is exact.

Quotients of whole numbers by a constant: `y = trunc(x / d)`, exact.

It is a product with `ceil(2**s / d)`, whose lower `s` bits are lost. With `s` the bits of `x` and
`d` together, it is too large by less than `1 / d`, which reaches no other whole number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.arithmetic.fixed_point import fixed
from mase_hw.cells import Netlist
from mase_hw.cells.cast_fixed import CastFixed
from mase_hw.cells.cast_mixed import CastMixed
from mase_hw.formats import FIXED_POINT, Format, Rounding
from mase_hw.ops._base import (
    Apply,
    Call,
    Example,
    Operator,
    Reference,
    example,
    example_values,
    torch_target,
)
from mase_hw.ops._interfaces import Affine, Elementwise, Exact, Rewritten, WholeNumbers
from mase_hw.ops._library import define
from mase_hw.ops._one_cell import fields, one_cell, row_fields


class Div(Operator, Elementwise, Rewritten, Affine):
    """A negative divisor changes the sign."""

    name = "div"
    targets = (
        "aten.div.Tensor",
        "aten.div.Scalar",
        "aten.div.Tensor_mode",
        "aten.div.Scalar_mode",
        "aten.true_divide.Tensor",
    )

    def bind(self, call: Call) -> Call:
        divisor = call.constants.get("data_in_1")
        if divisor is None or divisor.numel() != 1 or "data_in_0" in call.constants:
            return call
        known = {**call.attributes, "divisor": float(divisor)}
        operands = {"data_in_0": call.operands["data_in_0"]}
        return replace(call, operands=operands, constants={}, attributes=known)

    def affine(self, call: Call) -> tuple[Tensor, Tensor] | None:
        divisor = call.attributes.get("divisor")
        if divisor is None or call.attributes.get("rounding_mode") is not None:
            return None
        return torch.tensor(1.0 / divisor), torch.zeros(())

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        divisor = call.attributes.get("divisor")
        rounds = call.attributes.get("rounding_mode") is not None
        is_cast = divisor is not None and _is_power(divisor) and not rounds
        if self._refused(call) or is_cast:
            return None
        data = operands["data_in_0"]
        mode = call.attributes.get("rounding_mode")
        if _is_whole(call):
            return [_whole_quotient(data, int(call.attributes["divisor"]), str(mode))]
        if mode is not None:
            whole = aten.floor.default if mode == "floor" else aten.trunc.default
            other = operands["data_in_1"] if divisor is None else divisor
            return [whole(aten.div.Tensor(data, other))]
        if divisor is not None:
            return [aten.mul.Tensor(data, 1.0 / divisor)]
        return [aten.mul.Tensor(data, aten.reciprocal.default(operands["data_in_1"]))]

    @staticmethod
    def _refused(call: Call) -> list[str]:
        divisor = call.attributes.get("divisor", 0)
        if _is_whole(call) and not (divisor > 0 and divisor == int(divisor)):
            return ["it divides whole numbers; only one constant above zero divides them"]
        zero = call.attributes.get("divisor") == 0
        constant = call.constants.get("data_in_1")
        if zero or (constant is not None and not bool((constant != 0).all())):
            return ["it divides by zero; give another divisor"]
        return []

    def problems(self, call: Call) -> list[str]:
        problems = self._refused(call)
        divisor = call.attributes.get("divisor")
        if not problems and (divisor is None or not _is_power(divisor)):
            problems = [f"{self.name} is no hardware yet: run decompose_transform_pass first"]
        return problems or super().problems(call)

    def reference(self, call: Call) -> Reference:
        fraction = fixed(call.operands["data_in_0"]).frac_width + self._shift(call)
        sign = -1 if call.attributes["divisor"] < 0 else 1
        result = call.result.quantized
        return lambda codes: result.from_fixed(codes * sign, fraction)

    def hardware(self, call: Call) -> Netlist:
        data, result, lanes = fields(call)
        quotient = replace(data, fraction=data.fraction + self._shift(call))
        negate = call.attributes["divisor"] < 0
        return one_cell(call, CastFixed(quotient, result, lanes, negate, beats=call.result.beats))

    @staticmethod
    def _shift(call: Call) -> int:
        return math.frexp(abs(call.attributes["divisor"]))[1] - 1

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x / 4, (3, 5)),
            example(lambda x: torch.div(x, -0.5), (3, 5)),
            example(lambda x, y: x / (y.abs() + 1), (3, 5), example_values(3, 5)),
            example(Apply(lambda x, d: x / d, torch.tensor([3.0, -0.7])), (3, 2)),
        ]


def _is_whole(call: Call) -> bool:
    """True if both whole numbers and their quotient are."""
    rounds = call.attributes.get("rounding_mode") is not None
    return rounds and call.result.dtype.startswith("int")


def _whole_quotient(data: Tensor, divisor: int, mode: str) -> Tensor:
    """Return a quotient rounded down or toward zero: below zero, down is `-1 - (-1 - x) / d`."""
    quotient = torch_target("mase.quotient.default")
    rounded: Tensor = quotient(data, divisor)
    if mode == "floor":
        mirrored = quotient(aten.rsub.Scalar(data, -1), divisor)
        below = aten.rsub.Scalar(mirrored, -1)
        rounded = aten.where.self(aten.lt.Scalar(data, 0), below, rounded)
    return rounded


def _is_power(divisor: float) -> bool:
    return bool(math.frexp(abs(divisor))[0] == 0.5)


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
