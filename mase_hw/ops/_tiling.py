"""What passes that give streams an order and a parallelism ask of an operator."""

from __future__ import annotations

from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call
from mase_hw.ops._interface import Interface


class Tiled(Interface):
    """How parallel its streams may be; by default as parallel as each other."""

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        """Return groups of (operand or result name, dimension 0 or 1) of equal parallelism.

        Element-wise operators tie everything that streams; others override.
        """
        names = [*call.streams, *call.results]
        return [[(name, dim) for name in names] for dim in (0, 1)]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        """Return the largest parallelism of (operand or result name, dimension 0 or 1).

        What is not named is bounded by the tensor's size alone.
        """
        return {}

    def unrolling(self, call: Call) -> dict[str, range]:
        """Return, by constant operand, how many of its elements along dimension 0 a cycle may take.

        Empty for an operator that takes as many as its streams bring. The first value is the
        default; the parallelism of the streams is known.
        """
        return {}


class Ordered(Interface):
    """In which order its streams come; by default all in one."""

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Return the order of every stream, given those that are offered in `call.operands`.

        What an operand gets here and its producer does not give is re-ordered on the way. The
        default suits operators that work element by element: everything in the order of the first
        operand that is not torch's own.
        """
        offered = [spec.order for spec in call.streams.values() if spec.order is not None]
        order = offered[0] if offered else None
        return dict.fromkeys([*call.streams, *call.results], order)


class Broadcasting(Interface):
    """Streams of smaller shapes are expanded to the result's on the way."""


class Growing(Interface):
    """Rows of its streams may end at the diagonal; by default they may not."""

    def growing(self, call: Call) -> list[frozenset[str]]:
        """Return the operands and results whose rows may end where `TensorSpec.grows` says.

        Those of a set end together; what an operand does not bring is taken for zero where the
        result is whole.
        """
        return []


class Elementwise(Growing):
    """An element of the result depends on its own element of each stream, and on constants."""

    def growing(self, call: Call) -> list[frozenset[str]]:
        return [frozenset({*call.streams, *call.results})]
