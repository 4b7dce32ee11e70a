"""Linear layer: `y = x W^T + b` over the last dimension (torch.nn.functional.linear).

Products and sums are exact; the result is rounded once. The accumulator is as wide as the worst
case of the actual weights over all input codes. Blocks: see `_block_product`; other scalar formats:
see `_scalar_product`. The result is of any format. Integers with a real scale: see `_requantize`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw.ops import _requantize as scaled
from mase_hw.ops._accumulate import Bounds, exact_dtype, width_for
from mase_hw.ops._base import (
    Call,
    Cycles,
    Example,
    Hardware,
    Operator,
    Reference,
    Source,
    example_values,
    one_per_cycle,
)
from mase_hw.ops._block_product import BlockProduct
from mase_hw.ops._blocks import is_block
from mase_hw.ops._encode import ANY, encoder_room
from mase_hw.ops._fixed import fixed
from mase_hw.ops._product import Product, all_fixed, rounded, same
from mase_hw.ops._scalar_product import ScalarProduct
from mase_hw.ops._scalars import SCALED
from mase_hw.ops._tensor import Order, TensorSpec


class Linear(Operator):
    """Matrix product with constant weights."""

    name: ClassVar[str] = "linear"
    targets: ClassVar[tuple[str, ...]] = ("aten.linear.default",)
    formats: ClassVar[tuple[str, ...]] = (*ANY, SCALED)
    scales: ClassVar[bool] = True

    def problems(self, call: Call) -> list[str]:
        """Also refuse weights that stream, and accumulators beyond 63 bits."""
        found = super().problems(call)
        if "weight" not in call.constants:
            return [*found, "the weight is computed by the model; it must be constant"]
        if not found and scaled.serves(call):
            found = scaled.problems(call, -1)
            return found or scaled.accumulators_fit(self._sums(call)[1])
        if not found and not all_fixed(call):
            return self._product(call).problems()
        if not found and self._widest_sum(call) > 62:
            found.append(
                "sums may exceed 62 bits; use narrower operands or a shorter bias fraction"
            )
        return found

    def expression(self, call: Call, operands: Mapping[str, Any]) -> Sequence[Any] | None:
        """Write a layer with a vector of weights, which has no dimension of results, as one row."""
        shape = call.operands["weight"].shape
        if len(shape) != 1:
            return None
        weight = torch.ops.aten.reshape.default(operands["weight"], [1, *shape])
        bias = operands.get("bias")
        if bias is not None:
            bias = torch.ops.aten.reshape.default(bias, [1])
        row = torch.ops.aten.linear.default(operands["data_in_0"], weight, bias)
        return [torch.ops.aten.squeeze.dim(row, -1)]

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes, a matrix product in the narrowest dtype that is exact."""
        if scaled.serves(call):
            return scaled.reference(call, self.reference(self._sums(call)[0]), -1)
        if not all_fixed(call):
            return self._product_reference(call)
        weight, bias, fraction = self._aligned(call)
        dtype = exact_dtype(self._bounds(call, weight, bias))
        result = call.result.quantized
        columns = weight.t().to(dtype).contiguous()
        start = None if bias is None else bias.to(dtype)

        def compute(codes: Tensor) -> Tensor:
            rows = codes.reshape(-1, codes.shape[-1]).to(dtype)
            sums = rows @ columns if start is None else torch.addmm(start, rows, columns)
            return result.from_fixed(sums.to(torch.int64), fraction).reshape(
                *codes.shape[:-1], columns.shape[1]
            )

        return compute

    def hardware(self, call: Call) -> Hardware:
        """Return an instance whose weights, and bias if any, come from ROMs."""
        if scaled.serves(call):
            sums, width = self._sums(call)
            return scaled.hardware(call, "mase_linear_scaled", self.hardware(sums), width, -1)
        data = call.operands["data_in_0"]
        codes = {name: call.constant_codes(name) for name in call.constants}
        if data.order is not None:
            features = data.with_parallelism(1, 1).to_beats(torch.arange(data.elements))
            codes["weight"] = codes["weight"][:, features.flatten()]
        sources = [
            Source(name, spec.to_beats(codes[name]))
            for name, spec in self.constant_streams(call).items()
        ]
        if not all_fixed(call):
            product = self._product(call)
            return product.hardware(f"mase_linear_{product.abbreviation}", sources)
        return Hardware(
            "mase_linear_fixed",
            {
                "HAS_BIAS": int("bias" in call.operands),
                "ACCUMULATOR_WIDTH": self._accumulator(call)[1],
            },
            sources,
            absent=() if "bias" in call.operands else ("bias",),
        )

    def constant_streams(self, call: Call) -> dict[str, TensorSpec]:
        """Weights come as tiles of results x elements, biases as tiles of results."""
        if scaled.serves(call):
            sums = self.constant_streams(self._sums(call)[0])
            return {**sums, **scaled.multiplier_stream(call, -1)}
        in_lanes, out_lanes = self._lanes(call)
        rows = {"weight": out_lanes, "bias": 1}
        columns = {"weight": in_lanes, "bias": out_lanes}
        return {
            name: call.operands[name].with_parallelism(rows[name], columns[name])
            for name in call.constants
        }

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Features of a single row may come in any order: the columns of the weights follow."""
        data = call.operands["data_in_0"]
        row = data.shape[-1] == data.elements == data.stream_shape[-1]
        single = not is_block(data) and data.order is not None and row
        return {"data_in_0": data.order if single else None, "data_out_0": None}

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        """Rows enter and leave together; elements and results are free."""
        return [[("data_in_0", 1), ("data_out_0", 1)]]

    def multipliers(self, call: Call) -> int:
        """One for each pair of an element and a result of a tile."""
        in_lanes, out_lanes = self._lanes(call)
        return call.operands["data_in_0"].parallelism[0] * in_lanes * out_lanes

    def work_cycles(self, call: Call) -> int:
        """Input tiles x result tiles for every row tile."""
        data, result = call.operands["data_in_0"], call.result
        return data.beats * result.tiles[1]

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """Replay every row once per result tile; a result follows its last operands."""
        if scaled.serves(call):
            return scaled.schedule(self.schedule(scaled.on_integers(call), arrivals))
        data = call.operands["data_in_0"]
        last = self._met(call, arrivals).reshape(-1, data.tiles[1])[:, -1]
        if not all_fixed(call):
            return self._product(call).schedule(last)
        return last + 3 + (data.parallelism[1] - 1).bit_length()

    def consumption(self, call: Call, arrivals: Mapping[str, Cycles]) -> dict[str, Cycles]:
        """Elements are stored as they come, to be replayed; weights are taken as they meet."""
        met, stored = self._met(call, arrivals), one_per_cycle(arrivals["data_in_0"])
        return {"data_in_0": met if call.result.tiles[1] == 1 else stored, "weight": met}

    def room(self, call: Call, used: Mapping[str, Cycles], delay: int) -> dict[str, Cycles]:
        """Two rows that are replayed, and the sums behind them."""
        data = call.operands["data_in_0"]
        in_tiles, sums, beat = data.tiles[1], call.result.tiles[1], np.arange(data.beats)
        # The last beat of the row before is read once the beat before that has moved on.
        freed = (beat // in_tiles - 1) * in_tiles * sums - 2
        moved = beat if sums == 1 else freed
        return {"data_in_0": moved // in_tiles - self._held(call)}

    @staticmethod
    def _held(call: Call) -> int:
        """Return the sums that wait when no result goes."""
        if scaled.serves(call):
            return 2 + scaled.REQUANTIZE_CYCLES
        return 2 if all_fixed(call) else 1 + encoder_room(call.result)

    def repeats(self, call: Call) -> dict[str, int]:
        """Every row tile takes all weights."""
        data = call.operands["data_in_0"]
        return {"weight": data.leading * data.tiles[0]}

    def _met(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """Return when each tile of weights meets its elements."""
        in_tiles, out_tiles = call.operands["data_in_0"].tiles[1], call.result.tiles[1]
        rows = arrivals["data_in_0"].reshape(-1, 1, in_tiles)
        written = rows if out_tiles == 1 else _accepted(rows) + 2
        replayed = np.broadcast_to(written, (len(rows), out_tiles, in_tiles)).reshape(-1)
        return one_per_cycle(np.maximum(replayed, arrivals.get("weight", replayed)))

    def operations(self, call: Call) -> int:
        """Two for each multiply-accumulate."""
        return 2 * call.result.elements * call.operands["data_in_0"].size[1]

    def _sums(self, call: Call) -> tuple[Call, int]:
        """Return the call on integers whose result are the exact sums, and their bits."""
        width = max(2, self._accumulator(scaled.on_integers(call))[1])
        return scaled.on_integers(call, width), width

    @staticmethod
    def _product(call: Call) -> Product:
        data = call.operands["data_in_0"]
        return (BlockProduct if is_block(data) else ScalarProduct)(call, same, data.shape[-1])

    def _product_reference(self, call: Call) -> Reference:
        product = self._product(call)
        sums = product.sums()

        def compute(codes: Tensor) -> Tensor:
            rows = product.plain(codes).reshape(-1, codes.shape[-1])
            return rounded(call, sums(rows), (*codes.shape[:-1], -1))

        return compute

    @staticmethod
    def _lanes(call: Call) -> tuple[int, int]:
        return call.operands["data_in_0"].parallelism[1], call.result.parallelism[1]

    @staticmethod
    def _aligned(call: Call) -> tuple[Tensor, Tensor | None, int]:
        """Return weight and bias codes aligned to the accumulator, and its fraction bits."""
        data, weight = fixed(call.operands["data_in_0"]), fixed(call.operands["weight"])
        fraction = data.frac_width + weight.frac_width
        weight_codes = call.constant_codes("weight")
        if "bias" not in call.operands:
            return weight_codes, None, fraction
        bias = fixed(call.operands["bias"])
        aligned = max(fraction, bias.frac_width)
        return (
            weight_codes << (aligned - fraction),
            call.constant_codes("bias") << (aligned - bias.frac_width),
            aligned,
        )

    @staticmethod
    def _bounds(call: Call, weight: Tensor, bias: Tensor | None) -> Bounds:
        data = fixed(call.operands["data_in_0"])
        low, high = weight * data.minimum_code, weight * data.maximum_code
        return Bounds.of_sums(torch.minimum(low, high), torch.maximum(low, high), bias)

    @staticmethod
    def _widest_sum(call: Call) -> int:
        """Return the bits that sums take whatever the weights are."""
        data, weight = fixed(call.operands["data_in_0"]), fixed(call.operands["weight"])
        width = data.width + weight.width + call.operands["data_in_0"].size[1].bit_length()
        if "bias" not in call.operands:
            return width
        bias = fixed(call.operands["bias"])
        fraction = data.frac_width + weight.frac_width
        width += max(0, bias.frac_width - fraction)
        return max(width, bias.width + max(0, fraction - bias.frac_width)) + 1

    def _accumulator(self, call: Call) -> tuple[int, int]:
        """Return fraction bits and width of the accumulator."""
        weight, bias, fraction = self._aligned(call)
        return fraction, width_for(self._bounds(call, weight, bias))

    def as_module(self, call: Call) -> nn.Module | None:
        """Return the layer, when its operands but the first are constant."""
        if len(call.streams) != 1:
            return None
        results, features = call.operands["weight"].shape
        return nn.Linear(features, results, bias="bias" in call.constants)

    def examples(self) -> list[Example]:
        """With and without bias, rank 2 to 4."""
        return [
            (nn.Linear(12, 7), (example_values(3, 12),)),
            (nn.Linear(5, 6, bias=False), (example_values(3, 4, 5),)),
            (nn.Linear(3, 4), (example_values(2, 2, 3, 3),)),
        ]


def _accepted(offered: Cycles) -> Cycles:
    return one_per_cycle(offered.reshape(-1)).reshape(offered.shape)
