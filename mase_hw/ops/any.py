"""Whether one element along dimensions holds (torch.any)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops._masks import truths

_aten = torch.ops.aten


class AnyTrue(Composite):
    """The largest truth."""

    name: ClassVar[str] = "any"
    targets: ClassVar[tuple[str, ...]] = ("aten.any.dim", "aten.any.dims")

    def expression(self, call: Call, operands: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return it."""
        (data,) = truths(call, operands)
        given, keeps = call.attributes["dim"], bool(call.attributes["keepdim"])
        dims = [given] if isinstance(given, int) else given
        if dims is None:
            dims = list(range(len(call.operands["data_in_0"].shape)))
        return [_aten.amax.default(data, dims, keeps)]

    def examples(self) -> list[Example]:
        """A mask, and numbers."""
        return [
            (
                Apply(lambda x: torch.where((x > 0.5).any(-1, keepdim=True), x, 0.0)),
                (example_values(2, 3, 4),),
            ),
            (Apply(lambda x: torch.where(x.any(1), 0.75, 0.5)), (example_values(2, 3).relu(),)),
        ]
