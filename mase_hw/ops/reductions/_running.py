"""What joins every element with all before it, along a dimension: maxima, minima, products.

Elements are joined with those one, two, four, ... places before (Hillis and Steele, 1986).
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Call, along_batch
from mase_hw.ops._composite import Composite


class Running(Composite):
    """Subclasses say how two elements are joined."""

    def problems(self, call: Call) -> list[str]:
        """Refuse to join inferences, and indices."""
        if self._dim(call) == 0:
            return [along_batch("it runs along", "name another dimension")]
        if len(call.results) > 1:
            return ["its indices are used; only its values have hardware"]
        return super().problems(call)

    @staticmethod
    def _dim(call: Call) -> int:
        return int(call.attributes["dim"]) % max(1, len(call.result.shape))

    def running(
        self, call: Call, data: Tensor, join: Callable[[Tensor, Tensor], Tensor]
    ) -> list[Tensor] | None:
        """Return every element joined with all before it."""
        dim = self._dim(call)
        if dim == 0:
            return None
        size, step = call.result.shape[dim], 1
        while step < size:
            first = aten.slice.Tensor(data, dim, 0, step)
            joined = join(
                aten.slice.Tensor(data, dim, step, size),
                aten.slice.Tensor(data, dim, 0, size - step),
            )
            data = aten.cat.default([first, joined], dim)
            step *= 2
        return [data]
