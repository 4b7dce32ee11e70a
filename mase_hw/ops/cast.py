"""Conversion of a stream to another number format; rounds and saturates as the result does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from mase_hw.formats.fixed import Fixed
from mase_hw.ops._base import Call, Cycles, Hardware, Operator, Reference
from mase_hw.ops._blocks import (
    INTEGER_BLOCKS,
    block,
    block_problems,
    check_tiles,
    encoded,
    is_block,
)
from mase_hw.ops._library import define_identity
from mase_hw.ops._scalars import SCALARS, integer_fraction, limits, scalar_problems

define_identity("cast")


class Cast(Operator):
    """The identity on values, in two formats."""

    name: ClassVar[str] = "cast"
    targets: ClassVar[tuple[str, ...]] = ("mase.cast.default",)
    role: ClassVar[str | None] = "cast"
    formats: ClassVar[tuple[str, ...]] = (*SCALARS, *INTEGER_BLOCKS)

    def problems(self, call: Call) -> list[str]:
        """Also refuse blocks that do not lie along the last dimension, and odd scales."""
        found = super().problems(call)
        if found:
            return found
        specs = {**call.operands, **call.results}
        blocks = any(is_block(spec) for spec in specs.values())
        for name, spec in specs.items():
            if is_block(spec):
                found += block_problems(name, spec)
            elif blocks and not isinstance(spec.format, Fixed):
                found.append(f"{name} is {spec.format}; blocks are cast to and from fixed point")
            else:
                found += scalar_problems(name, spec.quantized, result=name == "data_out_0")
        return found

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes of the result's format."""
        given, result = call.operands["data_in_0"], call.result.quantized
        if isinstance(given.format, Fixed):
            fraction = given.format.frac_width
            return lambda codes: result.from_fixed(codes, fraction)
        if not is_block(given):
            scalar, fraction = given.quantized, integer_fraction(given.quantized)
            return lambda codes: result.from_fixed(scalar.to_integers(codes), fraction)
        number = block(given)

        def compute(codes: Tensor) -> Tensor:
            bits, exponents = number.split(codes)
            integers = number.element.integers(bits)
            return result.from_scaled(integers, exponents + number.element.lsb_exponent)

        return compute

    def hardware(self, call: Call) -> Hardware:
        """Return one cast per lane and a register stage, or an encoder of blocks."""
        given, result = call.operands["data_in_0"], call.result
        for name, spec in (("data_in_0", given), ("data_out_0", result)):
            if is_block(spec):
                check_tiles(call.name, name, spec)
        if is_block(given):
            return Hardware(
                "mase_cast_mxint_mxint" if is_block(result) else "mase_cast_mxint_fixed"
            )
        if is_block(result):
            return Hardware("mase_cast_fixed_mxint")
        if isinstance(given.format, Fixed) and isinstance(result.format, Fixed):
            return Hardware("mase_cast_fixed")
        low, high = limits(given.quantized)
        parameters = {
            "SUM_WIDTH": max(-low, high).bit_length() + 1,
            "SUM_FRACTION": integer_fraction(given.quantized),
        }
        return Hardware("mase_cast_minifloat", parameters)

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """A block waits for its last tile."""
        if is_block(call.result):
            return encoded(call.result, arrivals["data_in_0"])
        return super().schedule(call, arrivals)

    def operations(self, call: Call) -> int:
        """None: no arithmetic of the model."""
        return 0
