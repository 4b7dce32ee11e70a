"""Convolutions in every number format.

Fixed point is as in `_convolution`, integers with a real scale as in `_requantize`; all others are
products.

The terms of a sum are the pixels of the window in row-major order, each with its channels. Blocks
with a shared scale lie along the channels of one pixel, of the image (dimension 1) as of the
weights; a number of channels that the block size does not divide ends with a shorter block. A pixel
outside the image is zero: the code 0 of a block (zeros in the smallest scale), a term that does not
count where a format has no zero. The sums are those of `_scalar_product` and `_block_product`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from mase_hw.geometry.beats import Cycles
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.geometry.window import ONE_PIXEL, Gather
from mase_hw.ops import _requantize as scaled
from mase_hw.ops._base import Call, Hardware, Reference, Source
from mase_hw.ops._block_product import BlockProduct
from mase_hw.ops._blocks import is_block
from mase_hw.ops._convolution import Convolution
from mase_hw.ops._encode import ANY, encoder_room
from mase_hw.ops._module import window_parameters, window_schedule, window_tables
from mase_hw.ops._product import Product, all_fixed, rounded
from mase_hw.ops._scalar_product import ScalarProduct
from mase_hw.ops._scalars import SCALED


class ProductConvolution(Convolution):
    """A convolution whose operands and result are of any format."""

    formats: ClassVar[tuple[str, ...]] = (*ANY, SCALED)

    def block_axis(self, name: str) -> int:
        """Blocks lie along the channels, counted from the last dimension."""
        return -1 if name == "bias" else -1 - self.dimensions

    def _illegal(self, call: Call) -> list[str]:
        found = super()._illegal(call)
        if found or all_fixed(call):
            return found
        if scaled.serves(call):
            found = scaled.problems(call, 1)
            return found or scaled.accumulators_fit(self._sums(call)[1])
        if int(call.attributes["groups"]) != 1:
            data = call.operands["data_in_0"].quantized
            return [f"its groups are {call.attributes['groups']}; with {data} they must be 1"]
        return self._product(call).problems()

    def _widest_sum(self, call: Call) -> int:
        # Products have bounds of their own.
        return super()._widest_sum(call) if all_fixed(call) else 0

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes."""
        if all_fixed(call):
            return super().reference(call)
        if scaled.serves(call):
            return scaled.reference(call, self.reference(self._sums(call)[0]), 1)
        product, gather = self._product(call), Gather(*self.axes(call))
        sums, results, space = product.sums(), call.result.shape[1], call.result.shape[2:]

        def compute(codes: Tensor) -> Tensor:
            windows = gather(product.plain(codes))
            rows = windows.permute(0, 3, 2, 1).flatten(0, 1).flatten(1)
            shape = (len(codes), windows.shape[-1], results)
            parts = (
                part.expand(shape[0] * shape[1], results).reshape(shape).transpose(1, 2)
                for part in sums(rows)
            )
            integers, exponents = parts
            return rounded(call, (integers, exponents), (len(codes), results, *space))

        return compute

    def hardware(self, call: Call) -> Hardware:
        """Return an instance with its tables; weights, and bias if any, come from ROMs."""
        if all_fixed(call):
            return super().hardware(call)
        if scaled.serves(call):
            sums, width = self._sums(call)
            return scaled.hardware(call, "mase_convolution_scaled", self.hardware(sums), width, 1)
        codes = {"weight": self._tiled_weight(call)}
        if "bias" in call.constants:
            codes["bias"] = call.constant_codes("bias")
        sources = [
            Source(name, spec.to_beats(codes[name]))
            for name, spec in self.constant_streams(call).items()
        ]
        window, product = self.window(call), self._product(call)
        return product.hardware(
            f"mase_convolution_{product.abbreviation}",
            sources,
            window_parameters(window),
            window_tables(window),
        )

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """A result follows the last element of its window."""
        if all_fixed(call):
            return super().schedule(call, arrivals)
        if scaled.serves(call):
            return scaled.schedule(self.schedule(scaled.on_integers(call), arrivals))
        window = self.window(call)
        met = window_schedule(window, arrivals["data_in_0"])
        return self._product(call).schedule(met.reshape(-1, window.terms)[:, -1])

    def held(self, call: Call) -> int:
        """Return the sums that wait when no result goes."""
        if scaled.serves(call):
            return super().held(call) + scaled.REQUANTIZE_CYCLES
        return super().held(call) if all_fixed(call) else 1 + encoder_room(call.result)

    def constant_streams(self, call: Call) -> dict[str, TensorSpec]:
        """Weights and biases, and the multipliers of a real scale."""
        if not scaled.serves(call):
            return super().constant_streams(call)
        sums = super().constant_streams(self._sums(call)[0])
        return {**sums, **scaled.multiplier_stream(call, 1)}

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        """One pixel at a time, but for fixed point."""
        return super().limits(call) if all_fixed(call) else ONE_PIXEL

    def unrolling(self, call: Call) -> dict[str, range]:
        """Products take one pixel of the window at a time."""
        if all_fixed(call) or scaled.serves(call):
            return super().unrolling(call)
        return {}

    def _sums(self, call: Call) -> tuple[Call, int]:
        """Return the call on integers whose result are the exact sums, and their bits."""
        width = max(2, self._accumulator(scaled.on_integers(call)))
        return scaled.on_integers(call, width), width

    def _product(self, call: Call) -> Product:
        data = call.operands["data_in_0"]

        def matrix(weight: Tensor) -> Tensor:
            filters = self.filters(call, weight).reshape(
                call.result.shape[1], *self._filter_shape(call)
            )
            return filters.permute(0, 2, 3, 1).flatten(1)

        kind = BlockProduct if is_block(data) else ScalarProduct
        return kind(call, matrix, data.shape[1])
