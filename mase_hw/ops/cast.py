"""Conversion of a stream to another number format; rounds and saturates as the result does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from mase_hw.formats.fixed import Fixed
from mase_hw.ops._base import Call, Cycles, Hardware, Operator, Reference
from mase_hw.ops._blocks import block, block_problems, check_tiles, encoded, is_block
from mase_hw.ops._library import define_identity

define_identity("cast")


class Cast(Operator):
    """The identity on values, in two formats."""

    name: ClassVar[str] = "cast"
    targets: ClassVar[tuple[str, ...]] = ("mase.cast.default",)
    role: ClassVar[str | None] = "cast"
    formats: ClassVar[tuple[str, ...]] = ("fixed", "mxint", "block_fp")

    def problems(self, call: Call) -> list[str]:
        """Also refuse blocks that do not lie along the last dimension."""
        found = super().problems(call)
        for name, spec in {**call.operands, **call.results}.items():
            if not found and is_block(spec):
                found += block_problems(name, spec)
        return found

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes of the result's format."""
        given, result = call.operands["data_in_0"], call.result.quantized
        if isinstance(given.format, Fixed):
            fraction = given.format.frac_width
            return lambda codes: result.from_fixed(codes, fraction)
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
        return Hardware("mase_cast_fixed_mxint" if is_block(result) else "mase_cast_fixed")

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """A block waits for its last tile."""
        if is_block(call.result):
            return encoded(call.result, arrivals["data_in_0"])
        return super().schedule(call, arrivals)

    def operations(self, call: Call) -> int:
        """None: no arithmetic of the model."""
        return 0
