"""Whether every element along dimensions holds (torch.all)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from mase_hw.ops._base import Apply, Call, Example, example_values
from mase_hw.ops._composite import Composite
from mase_hw.ops._masks import truths

_aten = torch.ops.aten


class AllTrue(Composite):
    """Whether no element is 0."""

    name: ClassVar[str] = "all"
    targets: ClassVar[tuple[str, ...]] = ("aten.all.dim", "aten.all.dims")

    def expression(self, call: Call, operands: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return it."""
        (data,) = truths(call, operands)
        given, keeps = call.attributes["dim"], bool(call.attributes["keepdim"])
        dims = [given] if isinstance(given, int) else given
        if dims is None:
            dims = list(range(len(call.operands["data_in_0"].shape)))
        missing = _aten.amax.default(_aten.eq.Scalar(data, 0), dims, keeps)
        return [_aten.eq.Scalar(missing, 0)]

    def examples(self) -> list[Example]:
        """A mask, and numbers."""
        return [
            (
                Apply(lambda x: torch.where((x > 0.5).all(-1, keepdim=True), x, 0.0)),
                (example_values(2, 3, 4),),
            ),
            (Apply(lambda x: torch.where(x.all(1), 0.75, 0.5)), (example_values(2, 3).relu(),)),
        ]
