"""Dropout: `y = x` at inference.

Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting",
JMLR 15 (2014); torch scales while training, so that inference is the identity.
"""

from __future__ import annotations

from torch import nn

from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._rewriting import Removable
from mase_hw.ops.movement._moves import Wire


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
        """Return true at inference, and for a probability of zero."""
        return not call.attributes["train"] or call.attributes["p"] == 0

    def trains(self, call: Call) -> bool:
        """Return true for a probability above zero."""
        return bool(call.attributes["p"] > 0)

    def problems(self, call: Call) -> list[str]:
        found = super().problems(call)
        if not self.is_identity(call):
            found.append("dropout while training has no hardware: capture in evaluation mode")
        return found

    def examples(self) -> list[Example]:
        return [example(nn.Sequential(nn.ReLU(), nn.Dropout(0.3)), (3, 5))]
