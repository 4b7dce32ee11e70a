"""A tensor as it was one inference before: `y[t] = x[t - 1]`, zeros in the first one after reset.

The caches of convolutions that see a stream frame by frame, and delay lines, are made of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mase_hw.cells import Netlist
from mase_hw.cells.previous import Previous as PreviousCell
from mase_hw.ops._base import (
    Apply,
    Attributes,
    Call,
    Example,
    Operator,
    Reference,
    example_values,
    torch_target,
)
from mase_hw.ops._interfaces import STATE, Numeric, Ordered, Stateful, Tiled
from mase_hw.ops._library import define

define("previous(Tensor self) -> Tensor", torch.zeros_like)


class Previous(Operator, Stateful, Numeric, Ordered, Tiled):
    """`y[t] = x[t - 1]`."""

    name = "previous"
    targets = ("mase.previous.default",)
    keeps_format = True
    casts = False

    def empty(self, attributes: Attributes, data_in_0: Tensor) -> Tensor:
        return torch.zeros_like(data_in_0)

    def compute(
        self, target: object, arguments: Attributes, operands: Mapping[str, Tensor]
    ) -> Tensor:
        return _exchanged(operands["data_in_0"], operands[STATE])

    def problems(self, call: Call) -> list[str]:
        found = super().problems(call)
        if call.constants:
            found.append("what it keeps must be computed by the model, not constant")
        return found

    def reference(self, call: Call) -> Reference:
        """Return codes, state -> codes."""
        return _exchanged

    def hardware(self, call: Call) -> Netlist:
        (port,) = call.ports.values()
        return Netlist.single(call.ports, PreviousCell(port))

    def operations(self, call: Call) -> int:
        return 0

    def examples(self) -> list[Example]:
        target = torch_target(self.targets[0])
        return [(Apply(lambda x: target(x)), (example_values(1, 3, 5),))]


def _exchanged(values: Tensor, state: Tensor) -> Tensor:
    result = state.clone()
    state.copy_(values.detach())
    return result
