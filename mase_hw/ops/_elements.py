"""What element-wise operators share, whatever the number formats of their elements.

`elements_of` chooses the one arithmetic that a call has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor

from mase_hw.approximation.domain import Function
from mase_hw.cells import Cell
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call, Reference


class Evaluator(Protocol):
    """The integer arithmetic of a function of one operand."""

    def evaluate(self, codes: Tensor) -> Tensor:
        """Return the result codes of operand codes."""


E = TypeVar("E", bound=Evaluator)


@dataclass(frozen=True)
class Elements(ABC, Generic[E]):
    """The arithmetic of one element-wise call.

    Operations of two operands are `add`, `subtract` and `multiply`.
    """

    call: Call

    @abstractmethod
    def binary_problems(self, operation: str) -> list[str]:
        """Obstacles between a sum, difference or product and hardware."""

    def binary_reference(self, operation: str) -> Reference:
        """Return codes -> codes; constants are encoded and decoded once."""
        call, combine = self.call, self.combination(operation)
        streams = list(call.streams)
        constants = {name: self.decode(name, call.constant_codes(name)) for name in call.constants}

        def compute(*codes: Tensor) -> Tensor:
            pairs = zip(streams, codes, strict=True)
            operands = {**constants, **{name: self.decode(name, item) for name, item in pairs}}
            return combine(operands["data_in_0"], operands["data_in_1"])

        return compute

    @abstractmethod
    def decode(self, operand: str, codes: Tensor) -> Any:
        """Operand as `combination` takes it."""

    @abstractmethod
    def combination(self, operation: str) -> Callable[[Any, Any], Tensor]:
        """Return a function from two decoded operands to result codes."""

    @abstractmethod
    def binary_cell(self, operation: str) -> Cell:
        """Return the cell of a sum, difference or product."""

    def unary_problems(self) -> list[str]:
        """Obstacles between a function of one operand and hardware, but its fit."""
        return []

    @staticmethod
    @abstractmethod
    def fit(function: Function, operand: Any, result: Any) -> E:
        """Return the integer arithmetic of a function between two formats.

        Raises:
            UnsupportedError: when it takes too large a memory.
        """

    @abstractmethod
    def unary_cell(self, evaluator: E) -> Cell:
        """Return the cell of a function."""

    def operand_cell(self, evaluator: E) -> Cell | None:
        """Return a cell before it, which prepares its operand."""
        return None

    def orders(self, otherwise: dict[str, Order | None]) -> dict[str, Order | None]:
        """Return the orders in which operands and results come, any unless blocks stay whole."""
        return otherwise
