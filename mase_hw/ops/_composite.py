"""Operators that a pass writes with others; they have no hardware of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from torch import Tensor

from mase_hw.cells import Netlist
from mase_hw.errors import UnsupportedError
from mase_hw.ops._base import Call, Operator, Reference
from mase_hw.ops._rewriting import Rewritten


class Composite(Operator, Rewritten):
    """An operator whose `expression` is all there is to it.

    Nodes of several results are composites: each result becomes a node, and the operand is forked.
    """

    families = frozenset()
    casts = False

    @abstractmethod
    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return every result written with other torch operators.

        None where that cannot be done; `problems` then says why.
        """

    def problems(self, call: Call) -> list[str]:
        """It must have been taken apart."""
        return [f"{self.name} is no hardware yet: run decompose_transform_pass first"]

    def reference(self, call: Call) -> Reference:
        """None: the operators that it is written with have references."""
        raise UnsupportedError(self.problems(call)[0])

    def hardware(self, call: Call) -> Netlist:
        """None: the operators that it is written with have hardware."""
        raise UnsupportedError(self.problems(call)[0])
