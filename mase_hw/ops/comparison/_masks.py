"""The bases of operators on masks, whose truths are 0 and 1."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example_values, torch_target
from mase_hw.ops._composite import Composite


class MaskPair(Composite):
    """A function of two masks; subclasses say of what truths it is which."""

    @abstractmethod
    def combined(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the truth that two truths give."""

    def problems(self, call: Call) -> list[str]:
        if not _is_mask(call):
            return ["it combines the bits of whole numbers; only masks have hardware"]
        return super().problems(call)

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return a truth; None for the bits of whole numbers."""
        return [self.combined(*_truths(call, operands))] if _is_mask(call) else None

    def examples(self) -> list[Example]:
        """Two masks; a mask and numbers, which hold where they are not zero."""
        target = torch_target(self.targets[0])
        values = (example_values(2, 5), example_values(2, 5, seed=1))
        return [
            (Apply(lambda x, y: torch.where(target(x > 0, y < 0.25), x, 0.0)), values),
            (Apply(lambda x, y: torch.where(target(x > 0, y), x, 0.0)), values),
        ]


class Quantifier(Composite):
    """Whether elements along dimensions hold; subclasses say which.

    Attributes:
        function: torch's own.
    """

    function: ClassVar[Callable[..., Tensor]]

    @abstractmethod
    def reduced(self, data: Tensor, dims: list[int], keeps: bool) -> Tensor:
        """Return the truth of the truths along dimensions."""

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        (data,) = _truths(call, operands)
        given, keeps = call.attributes["dim"], bool(call.attributes["keepdim"])
        dims = [given] if isinstance(given, int) else given
        if dims is None:
            dims = list(range(len(call.operands["data_in_0"].shape)))
        return [self.reduced(data, dims, keeps)]

    def examples(self) -> list[Example]:
        holds = type(self).function
        return [
            (
                Apply(lambda x: torch.where(holds(x > 0.5, -1, keepdim=True), x, 0.0)),
                (example_values(2, 3, 4),),
            ),
            (Apply(lambda x: torch.where(holds(x, 1), 0.75, 0.5)), (example_values(2, 3).relu(),)),
        ]


def _is_mask(call: Call) -> bool:
    return call.result.dtype == "bool"


def _truths(call: Call, operands: Mapping[str, Tensor]) -> list[Tensor]:
    """Return each operand as 0 and 1; numbers hold where they are not zero."""
    return [
        value if call.operands[name].dtype == "bool" else aten.ne.Scalar(value, 0)
        for name, value in operands.items()
    ]
