"""Other shapes of the same elements in order."""

from __future__ import annotations

from torch import Tensor

from mase_hw.geometry.runs import reshaped_axes
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._interfaces import Ordered
from mase_hw.ops.movement._moves import Layout


class Reshape(Layout, Ordered):
    """Another shape for the same elements in row-major order (torch.reshape and its relatives)."""

    name = "reshape"
    targets: tuple[str, ...] = (
        "aten.view.default",
        "aten.reshape.default",
        "aten._unsafe_view.default",
        "aten.unflatten.int",
        "aten.squeeze.default",
        "aten.squeeze.dim",
        "aten.squeeze.dims",
        "aten.unsqueeze.default",
    )

    def move(self, call: Call, tensor: Tensor) -> Tensor:
        return tensor.reshape(-1, *call.result.shape[1:])

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.reshape(-1, 4, 3), (2, 12)),
            example(lambda x: x.reshape(-1, 2, 9), (2, 6, 3)),
            example(lambda x: x.unsqueeze(1), (2, 5)),
        ]

    def orders(self, call: Call) -> dict[str, Order | None]:
        """The elements of a stream in another order stay where they are.

        The innermost dimension of the stream stays too, unless the result is one row. Where other
        dimensions are split, joined or added, they stream as before.
        """
        data, result = call.operands["data_in_0"], call.result
        if data.order is None:
            return {"data_in_0": None, "data_out_0": None}
        axes = reshaped_axes(data, result.shape) if data.shape != result.shape else None
        if axes is not None:
            return {"data_in_0": data.order, "data_out_0": Order.permuted(result.shape, axes)}
        rank, lanes = len(result.shape), data.stream_shape[-1]
        inner = (data.elements // lanes, lanes) if rank > 2 else (data.elements,)
        stream = (1,) * (rank - len(inner)) + inner
        return {
            "data_in_0": data.order,
            "data_out_0": data.order.flattened(stream).simplified(result.shape),
        }


class Flatten(Reshape):
    """Adjacent dimensions joined into one (torch.flatten)."""

    name = "flatten"
    targets = ("aten.flatten.using_ints",)

    def examples(self) -> list[Example]:
        return [
            example(lambda x: x.flatten(1), (2, 3, 4)),
            example(lambda x: x.flatten(2), (2, 2, 3, 2)),
        ]


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
