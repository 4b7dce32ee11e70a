"""What operators that move codes and compute nothing share."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.formats._encoding import SCALARS, SCALED, Families
from mase_hw.ops._base import Call, Operator


class Moves(Operator):
    """Codes of any format whose elements stand by themselves, as they are."""

    keeps_format: ClassVar[bool] = True
    casts: ClassVar[bool] = False
    families: ClassVar[Families] = SCALARS | SCALED

    def operations(self, call: Call) -> int:
        """None."""
        return 0
