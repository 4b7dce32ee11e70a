"""Other shapes of the same elements in order."""

from __future__ import annotations

from torch import Tensor

from mase_hw.geometry.runs import reshaped_axes
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Call, Example, example
from mase_hw.ops._tiling import Ordered
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
