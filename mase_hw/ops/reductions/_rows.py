"""What operators share that need the whole of a row before they give its first result."""

from __future__ import annotations

from abc import abstractmethod

from mase_hw.geometry.runs import stream_axes
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call, Operator, along_batch
from mase_hw.ops._numbers import Numeric
from mase_hw.ops._tiling import Ordered, Tiled


class Rows(Operator, Numeric, Ordered, Tiled):
    """An operator along one dimension, which streams innermost: a row after the other."""

    approximates = True

    @abstractmethod
    def dim(self, call: Call) -> int:
        """Return the dimension of the rows, counted from the front."""

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if self.dim(call) == 0:
            problems.append(along_batch("its rows lie along", "name another dimension"))
        return problems

    def orders(self, call: Call) -> dict[str, Order | None]:
        """The order that is offered, with the dimension of the rows innermost."""
        data, dim = call.operands["data_in_0"], self.dim(call)
        axes = stream_axes(data) or tuple(range(len(data.shape)))
        inner = (*(axis for axis in axes if axis != dim), dim)
        return dict.fromkeys(("data_in_0", "data_out_0"), Order.permuted(data.shape, inner))

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        names = [*call.streams, "data_out_0"]
        return [[(name, dim) for name in names] for dim in (0, 1)]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return {(name, 1): 1 for name in (*call.streams, "data_out_0")}
