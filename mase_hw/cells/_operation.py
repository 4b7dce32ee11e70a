"""What operators of two operands compute."""

from __future__ import annotations

from enum import Enum


class Operation(Enum):
    """The operation; the values are the words of `mase_pkg::operation_e`."""

    ADD = "Add"
    SUBTRACT = "Subtract"
    MULTIPLY = "Multiply"
    MINIMUM = "Minimum"
    MAXIMUM = "Maximum"
    LESS = "Less"
    LESS_EQUAL = "LessEqual"
    GREATER = "Greater"
    GREATER_EQUAL = "GreaterEqual"
    EQUAL = "Equal"
    NOT_EQUAL = "NotEqual"

    @property
    def compares(self) -> bool:
        """Whether a result is 1 where a relation holds, else 0."""
        return self in _COMPARISONS

    @property
    def stages(self) -> int:
        """Pipeline stages of `mase_scaled_arithmetic`, in cycles."""
        return 2 if self is Operation.MULTIPLY else 6


_COMPARISONS = frozenset(
    {
        Operation.LESS,
        Operation.LESS_EQUAL,
        Operation.GREATER,
        Operation.GREATER_EQUAL,
        Operation.EQUAL,
        Operation.NOT_EQUAL,
    }
)
