"""Linear layer: `y = x W^T + b` over the last dimension (torch.nn.functional.linear).

Products and sums are exact and rounded once, but for blocks: see `_block_product`. The accumulator
is as wide as the worst case of the actual weights over all input codes. `_products` chooses the
arithmetic. The result is of any format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from mase_hw._aten import aten
from mase_hw.cells import Netlist, NetlistBuilder
from mase_hw.cells.stream_replay import StreamReplay
from mase_hw.formats import BLOCKS, SCALARS, SCALED
from mase_hw.geometry import Order
from mase_hw.geometry.blocks import is_block
from mase_hw.ops._base import OPERAND_NAMES, Call, Example, Operator, Reference, example
from mase_hw.ops._interfaces import Configured, Judged, Ordered, Rewritten, Tiled, Weighted
from mase_hw.ops.products._product import OPTIONS, Feed, Product
from mase_hw.ops.products._products import product_of
from mase_hw.ops.products.grouped_product import TARGET


class Linear(Operator, Weighted, Configured, Rewritten, Ordered, Tiled, Judged):
    """Matrix product with constant weights."""

    channel_axis = -1
    name = "linear"
    targets = ("aten.linear.default", TARGET)
    operand_names: Mapping[str, str] = {**OPERAND_NAMES, "values": "data_in_0"}
    families = SCALARS | BLOCKS | SCALED
    scales = True
    options = OPTIONS

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if "weight" not in call.constants:
            return [*problems, "the weight is computed by the model; it must be constant"]
        if "ends" in call.operands:
            return [
                f"it has {call.operands['weight'].shape[0]} matrices, each for the rows that are "
                "sent to it, and hardware sends every row the same way; compute it outside"
            ]
        return problems or self._product(call).refusals()

    def notes(self, call: Call) -> list[str]:
        return [] if "ends" in call.operands else self._product(call).notes()

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        shape = call.operands["weight"].shape
        if len(shape) != 1:
            return None
        weight = aten.reshape.default(operands["weight"], [1, *shape])
        bias = operands.get("bias")
        if bias is not None:
            bias = aten.reshape.default(bias, [1])
        row = aten.linear.default(operands["data_in_0"], weight, bias)
        return [aten.squeeze.dim(row, -1)]

    def reference(self, call: Call) -> Reference:
        product = self._product(call)
        sums = product.sums()

        def compute(codes: Tensor) -> Tensor:
            shape = (*codes.shape[:-1], -1)
            integers, exponents = sums(product.plain(codes).reshape(-1, codes.shape[-1]))
            if exponents.dim():
                exponents = exponents.expand(integers.shape).reshape(shape)
            return product.rounded(integers.reshape(shape), exponents)

        return compute

    def hardware(self, call: Call) -> Netlist:
        data, result, product = call.operands["data_in_0"], call.result, self._product(call)
        rows, in_lanes = data.parallelism
        in_tiles, out_tiles, out_lanes = data.tiles[1], result.tiles[1], result.parallelism[1]
        net = NetlistBuilder(call.ports)
        elements = product.prepare(net, net.input("data_in_0"))
        if out_tiles > 1:
            replay = StreamReplay(net.port(elements), in_tiles, out_tiles)
            elements = net.add(replay, "replay", data_in=elements)
        feed = Feed(
            terms=in_tiles,
            group_terms=in_tiles,
            tail=data.size[1] - (in_tiles - 1) * in_lanes,
            rows=rows,
            in_lanes=in_lanes,
            out_lanes=out_lanes,
            beats=data.beats * out_tiles,
        )

        def arrange(codes: Tensor) -> Tensor:
            if data.order is None:
                return codes
            features = data.with_parallelism(1, 1).to_beats(torch.arange(data.elements))
            return codes[:, features.flatten()]

        weight = call.operands["weight"].with_parallelism(out_lanes, in_lanes)
        return net.netlist(data_out_0=product.accumulate(net, elements, feed, weight, arrange))

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Features of a single row may come in any order: the columns of the weights follow."""
        data = call.operands["data_in_0"]
        row = data.shape[-1] == data.elements == data.stream_shape[-1]
        single = not is_block(data) and data.order is not None and row
        return {"data_in_0": data.order if single else None, "data_out_0": None}

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return [[("data_in_0", 1), ("data_out_0", 1)]]

    def repeats(self, call: Call) -> dict[str, int]:
        data = call.operands["data_in_0"]
        return {"weight": data.leading * data.tiles[0]}

    def operations(self, call: Call) -> int:
        return 2 * call.result.elements * call.operands["data_in_0"].size[1]

    @staticmethod
    def _product(call: Call) -> Product:
        return product_of(call, same, call.operands["data_in_0"].shape[-1], -1)

    def as_module(self, call: Call) -> nn.Module | None:
        if len(call.streams) != 1 or len(call.operands["weight"].shape) != 2:
            return None
        results, features = call.operands["weight"].shape
        return nn.Linear(features, results, bias="bias" in call.constants)

    def examples(self) -> list[Example]:
        return [
            example(nn.Linear(12, 7), (3, 12)),
            example(nn.Linear(5, 6, bias=False), (3, 4, 5)),
            example(nn.Linear(3, 4), (2, 2, 3, 3)),
        ]


def same(weight: Tensor) -> Tensor:
    """Return the weight of a linear layer as it is."""
    return weight
