"""Sums of products in fixed point: exact, in an accumulator for the worst case of the weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw.arithmetic.fixed_point import MAX_BITS, fixed, too_wide
from mase_hw.arithmetic.sums import Bounds, exact_dtype, narrowest, width_for
from mase_hw.cells import Cell
from mase_hw.cells.multiply_accumulate import MultiplyAccumulate
from mase_hw.formats import Encoding
from mase_hw.formats.fixed import Fixed
from mase_hw.ops.products._product import Feed, Product

# Weights that are cast to the dtype of their sums at a time.
CAST_ELEMENTS = 1 << 22


class FixedProduct(Product):
    """Products and sums of integers."""

    def problems(self) -> list[str]:
        formats = {name: fixed(spec) for name, spec in self.call.operands.items()}
        terms = self.matrix(self.call.constants["weight"]).shape[1]
        if _sum_bits(terms.bit_length(), 0, **formats) <= MAX_BITS:
            # Whatever the weights are.
            return []
        products, start = self._parts()
        used = sum(formats[name].width for name in ("data_in_0", "weight"))
        more = width_for(products) - used
        less = start.bit_length() + 1 - formats["bias"].width if "bias" in formats else 0
        return too_wide(lambda **given: _sum_bits(more, less, **given), **formats)

    def sums(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        grouped = self.grouped(1)

        def compute(rows: Tensor) -> tuple[Tensor, Tensor]:
            sums, exponent = grouped(rows.t()[None, None])
            return sums[0].t(), exponent

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
            sums = (parts[0] if len(parts) == 1 else torch.cat(parts, -2)).flatten(1, 2)
            return (sums if bias is None else sums + bias.reshape(-1, 1)), exponent

        return compute

    def cell(self, feed: Feed) -> Cell:
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

    def _parts(self) -> tuple[Bounds, int]:
        """Return bounds of the products' sums, and the largest bias code without its sign."""
        data = fixed(self.call.operands["data_in_0"])
        weight = self.matrix(self.call.constant_codes("weight"))
        products = Bounds.of_products(weight, data.minimum_code, data.maximum_code)
        given = "bias" in self.call.operands
        return products, int(self.call.constant_codes("bias").abs().max()) if given else 0


def _sum_bits(
    more: int, less: int, data_in_0: Fixed, weight: Fixed, bias: Fixed | None = None
) -> int:
    """Return the bits of sums of products and a bias.

    Args:
        more: bits that the products' sums take beyond those of a factor of each kind.
        less: bits that the largest bias takes beyond those of its format.
        data_in_0: format of the one factor.
        weight: format of the other one.
        bias: format of the bias.
    """
    products = data_in_0.width + weight.width + more
    if bias is None:
        return products
    finer = bias.frac_width - data_in_0.frac_width - weight.frac_width
    return 1 + max(products + max(0, finer), bias.width + less + max(0, -finer))
