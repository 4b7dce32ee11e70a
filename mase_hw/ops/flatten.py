"""Adjacent dimensions joined into one (torch.flatten)."""

from __future__ import annotations

from typing import ClassVar

from mase_hw.ops.reshape import Reshape


class Flatten(Reshape):
    """Row-major order stays."""

    name: ClassVar[str] = "flatten"
    targets: ClassVar[tuple[str, ...]] = ("aten.flatten.using_ints",)
