"""Operators that keep a state from one inference to the next."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from mase_hw.ops._base import Attributes, Call
from mase_hw.ops._interface import Interface

# The operand of `Operator.compute` that is kept from one inference to the next.
STATE = "state"


class Stateful(Interface):
    """A result depends on inferences before, which come in order."""

    @abstractmethod
    def empty(self, attributes: Attributes, data_in_0: Tensor) -> Tensor:
        """State after reset, in codes or in values.

        `reference` takes the state behind the streams, `compute` as the operand `state`; both
        write into it, in place, what the next inference finds.

        Args:
            attributes: the arguments that are no tensors, by their ATen names.
            data_in_0: the first operand of one inference.
        """

    def places(self, call: Call) -> dict[str, int]:
        """Return, by operand that says a place of the state, how many places there are.

        A number beyond the last place is refused where a simulation is given it.
        """
        return {}
