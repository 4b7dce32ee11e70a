"""Exchanges of dimensions."""

from __future__ import annotations

from torch import Tensor

from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._tiling import Ordered
from mase_hw.ops.movement._moves import Layout


class Permute(Layout, Ordered):
    """Dimensions in another order (torch.permute)."""

    name = "permute"
    targets: tuple[str, ...] = ("aten.permute.default",)

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        data = call.operands["data_in_0"]
        if data.shape[0] == 1 and self.move(call, _probe(data.shape)).shape[0] != 2:
            problems.append("the batch dimension moves; keep it first")
        return problems

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        return tensor.permute(call.attributes["dims"])

    def examples(self) -> list[Example]:
        return [example(lambda x: x.permute(0, 3, 1, 2), (2, 2, 3, 4))]

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Nothing moves here: the result is the same stream, in an order of its own.

        A consumer that needs torch's order gets a re-ordering node.
        """
        data, result = call.operands["data_in_0"], call.result
        order = data.order if data.order and data.order.view == data.shape else None
        back = self._inverse(call)
        axes = tuple(back[axis] for axis in order.axes) if order else back
        stream = order.stream if order else data.shape
        return {
            "data_in_0": order,
            "data_out_0": Order(result.shape, axes, stream).simplified(result.shape),
        }

    def _inverse(self, call: Call) -> tuple[int, ...]:
        """Return, for each dimension of the operand, where it is in the result."""
        rank = len(call.operands["data_in_0"].shape)
        moved = self.move(call, Tensor(1).expand(*range(1, rank + 1)))
        return tuple(list(moved.shape).index(size) for size in range(1, rank + 1))


def _probe(shape: tuple[int, ...]) -> Tensor:
    """Return an empty-storage tensor of two inferences."""
    return Tensor(1).expand(2, *shape[1:])


class Transpose(Permute):
    """Two dimensions exchanged (torch.transpose)."""

    name = "transpose"
    targets = ("aten.transpose.int", "aten.swapaxes.default", "aten.swapdims.default")

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        attributes = call.attributes
        first, second = (attributes.get(f"dim{n}", attributes.get(f"axis{n}", n)) for n in (0, 1))
        return tensor.transpose(int(first), int(second))

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.transpose(1, 2), (2, 4, 5)),
            example(lambda x: x.swapaxes(1, -1), (2, 3, 2, 2)),
        ]
