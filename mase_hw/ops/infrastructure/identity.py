"""Identity: `y = x`, whatever torch calls it (a copy, a view, a detach, dropout at inference)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._interfaces import Removable, Rewritten
from mase_hw.ops.movement._moves import Wire


class Identity(Wire, Removable, Rewritten):
    """Copies and conversions that keep every value; in hardware, a wire."""

    name = "identity"
    targets = (
        "aten.clone.default",
        "aten.contiguous.default",
        "aten.alias.default",
        "aten.detach.default",
        "aten.detach_.default",
        "aten.lift_fresh_copy.default",
        "aten._to_copy.default",
        "aten.to.device",
        "aten.to.dtype",
        "aten.to.dtype_layout",
        "aten.type_as.default",
        # A stream holds neither NaN nor an infinity.
        "aten.nan_to_num.default",
    )

    def is_identity(self, call: Call) -> bool:
        return call.operands["data_in_0"].dtype == call.result.dtype

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Elements that are not zero, if that becomes a mask; nothing else is read."""
        kinds = call.operands["data_in_0"].dtype, call.result.dtype
        if len(call.operands) > 1:
            return [aten.to.dtype(operands["data_in_0"], getattr(torch, kinds[1]))]
        if kinds[1] != "bool" or kinds[0] == "bool":
            return None
        return [aten.ne.Scalar(operands["data_in_0"], 0)]

    def problems(self, call: Call) -> list[str]:
        found = super().problems(call)
        data, result = call.operands["data_in_0"].dtype, call.result.dtype
        if _is_real(data) and not _is_real(result):
            found.append(f"it converts {data} to {result}: round it first, and keep {data}")
        return found

    def examples(self) -> list[Example]:
        return [example(lambda x: x.clone().relu(), (3, 5))]


def _is_real(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


class Dropout(Wire, Removable):
    """Every kind of dropout; only its inference has hardware, which is a wire."""

    name = "dropout"
    targets = (
        "aten.dropout.default",
        "aten.feature_dropout.default",
        "aten.alpha_dropout.default",
        "aten.feature_alpha_dropout.default",
    )

    def is_identity(self, call: Call) -> bool:
        return not call.attributes["train"] or call.attributes["p"] == 0

    def trains(self, call: Call) -> bool:
        return bool(call.attributes["p"] > 0)

    def problems(self, call: Call) -> list[str]:
        found = super().problems(call)
        if not self.is_identity(call):
            found.append("dropout while training has no hardware: capture in evaluation mode")
        return found

    def examples(self) -> list[Example]:
        return [example(nn.Sequential(nn.ReLU(), nn.Dropout(0.3)), (3, 5))]
