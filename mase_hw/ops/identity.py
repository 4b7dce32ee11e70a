"""Identity: `y = x`, whatever torch calls it (a copy, a view of the same shape, a detach)."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops._base import (
    Apply,
    Call,
    Example,
    example_values,
)
from mase_hw.ops._moves import Wire


class Identity(Wire):
    """Copies and conversions that keep every value; in hardware, a wire."""

    name: ClassVar[str] = "identity"
    targets: ClassVar[tuple[str, ...]] = (
        "aten.clone.default",
        "aten.contiguous.default",
        "aten.alias.default",
        "aten.detach.default",
        "aten.detach_.default",
        "aten.lift_fresh_copy.default",
        "aten._to_copy.default",
        "aten.to.device",
        "aten.to.dtype",
        "aten.to.dtype_layout",
        "aten.type_as.default",
    )

    def is_identity(self, call: Call) -> bool:
        """Return true when the dtype stays."""
        return call.operands["data_in_0"].dtype == call.result.dtype

    def problems(self, call: Call) -> list[str]:
        """Refuse conversions between real and whole numbers."""
        found = super().problems(call)
        kinds = [
            spec.dtype.strip("0123456789") for spec in (call.operands["data_in_0"], call.result)
        ]
        if kinds[0].removeprefix("b") != kinds[1].removeprefix("b"):
            found.append(
                f"it converts {call.operands['data_in_0'].dtype} to {call.result.dtype}: "
                "allowed are conversions between floating-point types"
            )
        return found

    def examples(self) -> list[Example]:
        """A copy, and beside it something to compute."""
        return [(Apply(lambda x: x.clone().relu()), (example_values(3, 5),))]
