"""Moves of elements that are one function of a tensor."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mase_hw.ops._base import Call, Example, along_batch, overloads
from mase_hw.ops.movement._layout import Layout


class Rearrangement(Layout):
    """A move of elements.

    Args:
        name: of the operator.
        targets: torch operators of the default overload.
        move: takes the tensor, and the other arguments of the call by name.
        examples: see `Operator`.
    """

    def __init__(
        self,
        name: str,
        targets: str,
        move: Callable[..., Tensor],
        examples: Callable[[], list[Example]],
    ) -> None:
        self.name, self.targets = name, overloads(targets)
        self._move, self._examples = move, examples

    def problems(self, call: Call) -> list[str]:
        problems, dims = super().problems(call), call.attributes.get("dims")
        if dims is not None and 0 in [int(dim) % len(call.result.shape) for dim in dims or (0,)]:
            problems.append(along_batch("it moves", "name the other dimensions"))
        return problems

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        return self._move(tensor, **call.attributes)

    def examples(self) -> list[Example]:
        return self._examples()
