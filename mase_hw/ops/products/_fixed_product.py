"""Sums of products in fixed point: exact, in an accumulator for the worst case of the weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw.arithmetic.fixed_point import MAX_BITS, fixed
from mase_hw.arithmetic.sums import Bounds, exact_dtype, narrowest, width_for
from mase_hw.cells import Cell
from mase_hw.cells.multiply_accumulate import MultiplyAccumulate
from mase_hw.formats import Encoding
from mase_hw.ops.products._product import Feed, Product

# Weights that are cast to the dtype of their sums at a time.
CAST_ELEMENTS = 1 << 22


class FixedProduct(Product):
    """Products and sums of integers."""

    def problems(self) -> list[str]:
        """Refuse sums beyond 62 bits."""
        if self._widest_sum() > MAX_BITS:
            return ["sums may exceed 62 bits; use narrower operands or a shorter bias fraction"]
        return []

    def sums(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return a matrix product in the narrowest dtype that is exact."""
        grouped = self.grouped(1)

        def compute(rows: Tensor) -> tuple[Tensor, Tensor]:
            found, exponent = grouped(rows.t()[None, None])
            return found[0].t(), exponent

        return compute

    def grouped(self, groups: int) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return a function from terms `[n, groups, terms, places]` to sums `[n, results, places]`.

        Args:
            groups: equal parts of the results that sum terms of their own.
        """
        weight, bias, fraction = self._aligned()
        dtype = exact_dtype(self._bounds())
        rows = weight.reshape(groups, -1, weight.shape[1])
        # Many weights wait in as few bits as they have, and are cast some results at a time.
        rows = rows.to(dtype if rows.numel() <= CAST_ELEMENTS else narrowest(rows))
        results = max(1, CAST_ELEMENTS // (groups * rows.shape[2]))
        exponent = torch.tensor(-fraction)

        def compute(terms: Tensor) -> tuple[Tensor, Tensor]:
            given = terms.to(dtype)
            parts = [
                (part.to(dtype) @ given).to(torch.int64) for part in torch.split(rows, results, 1)
            ]
            found = (parts[0] if len(parts) == 1 else torch.cat(parts, -2)).flatten(1, 2)
            return (found if bias is None else found + bias.reshape(-1, 1)), exponent

        return compute

    def cell(self, feed: Feed) -> Cell:
        """Return the accumulator, as wide as the weights ask for."""
        return self.accumulator(feed, self.call.result.quantized.encoding)

    def accumulator(self, feed: Feed, result: Encoding) -> MultiplyAccumulate:
        """Return the accumulator whose results are of another encoding."""
        operands = self.call.operands
        return MultiplyAccumulate(
            operands["data_in_0"].quantized.encoding,
            operands["weight"].quantized.encoding,
            operands["bias"].quantized.encoding if "bias" in operands else None,
            result,
            feed.terms,
            feed.rows,
            feed.in_lanes,
            feed.out_lanes,
            feed.beats,
            feed.separate,
            self.width(),
        )

    def width(self) -> int:
        """Return the bits of the accumulator."""
        return width_for(self._bounds())

    def _bounds(self) -> Bounds:
        return self.call.once("bounds", self._worst_case)

    def _worst_case(self) -> Bounds:
        weight, bias, _ = self._aligned()
        data = fixed(self.call.operands["data_in_0"])
        return Bounds.of_products(weight, data.minimum_code, data.maximum_code, bias)

    def _aligned(self) -> tuple[Tensor, Tensor | None, int]:
        """Return weight and bias codes aligned to the accumulator, and its fraction bits."""
        operands = self.call.operands
        fraction = fixed(operands["data_in_0"]).frac_width + fixed(operands["weight"]).frac_width
        weight = self.matrix(self.call.constant_codes("weight"))
        if "bias" not in operands:
            return weight, None, fraction
        bias = fixed(operands["bias"])
        aligned = max(fraction, bias.frac_width)
        return (
            weight << (aligned - fraction) if aligned > fraction else weight,
            self.call.constant_codes("bias") << (aligned - bias.frac_width),
            aligned,
        )

    def _widest_sum(self) -> int:
        """Return the bits that sums take whatever the weights are."""
        operands = self.call.operands
        data, weight = fixed(operands["data_in_0"]), fixed(operands["weight"])
        terms = self.matrix(self.call.constants["weight"]).shape[1]
        width = data.width + weight.width + terms.bit_length()
        if "bias" not in operands:
            return width
        bias = fixed(operands["bias"])
        fraction = data.frac_width + weight.frac_width
        width += max(0, bias.frac_width - fraction)
        return max(width, bias.width + max(0, fraction - bias.frac_width)) + 1
