"""What operators that move codes and compute nothing share."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops._base import Call, Operator
from mase_hw.ops._scalars import SCALARS, SCALED


class Moves(Operator):
    """Codes of any format whose elements stand by themselves, as they are."""

    keeps_format: ClassVar[bool] = True
    casts: ClassVar[bool] = False
    formats: ClassVar[tuple[str, ...]] = (*SCALARS, SCALED)

    def operations(self, call: Call) -> int:
        """None."""
        return 0
