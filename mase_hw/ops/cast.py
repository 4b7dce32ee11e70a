"""Conversion of a stream to another number format; rounds and saturates as the result does."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops._base import Call, Hardware, Operator, Reference
from mase_hw.ops._fixed import fixed
from mase_hw.ops._library import define_identity

define_identity("cast")


class Cast(Operator):
    """The identity on values, in two formats."""

    name: ClassVar[str] = "cast"
    targets: ClassVar[tuple[str, ...]] = ("mase.cast.default",)
    role: ClassVar[str | None] = "cast"

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes of the result's format."""
        fraction = fixed(call.operands["data_in_0"]).frac_width
        result = call.result.quantized
        return lambda codes: result.from_fixed(codes, fraction)

    def hardware(self, call: Call) -> Hardware:
        """Return one cast per lane and a register stage."""
        return Hardware("mase_cast_fixed")

    def operations(self, call: Call) -> int:
        """None: no arithmetic of the model."""
        return 0
