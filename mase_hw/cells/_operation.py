"""What operators of two operands compute."""

from __future__ import annotations

from enum import Enum


class Operation(Enum):
    """The operation; the values are the words of `mase_pkg::operation_e`."""

    ADD = "Add"
    SUBTRACT = "Subtract"
    MULTIPLY = "Multiply"

    @property
    def stages(self) -> int:
        """Cycles of `mase_scaled_arithmetic`."""
        return 2 if self is Operation.MULTIPLY else 6
