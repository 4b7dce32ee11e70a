"""Sums of products of scalars: minifloat, log, ternary, binary, and fixed point beside them.

Values are integers in the unit of their format, so that products and sums are exact; the result
is rounded once, to its format. The accumulator is as wide as the worst case of the actual weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw.arithmetic.scalars import (
    MAX_BITS,
    integer_fraction,
    is_scalar,
    result_problems,
    scalar_problems,
)
from mase_hw.arithmetic.sums import Bounds, exact_dtype, width_for
from mase_hw.cells import Cell
from mase_hw.cells.scalar_accumulate import ScalarAccumulate
from mase_hw.formats import Encoding, Kind
from mase_hw.geometry.blocks import check_tiles, is_block
from mase_hw.ops.products._product import Feed, Product


class ScalarProduct(Product):
    """Exact sums in one unit."""

    def problems(self) -> list[str]:
        problems = self.axis_problems()
        for name, spec in self.call.operands.items():
            if not is_scalar(spec):
                problems.append(f"{name} is {spec.format}; beside scalars it must be one")
            else:
                problems += scalar_problems(name, spec.quantized, result=False)
        problems += result_problems(self.call.result)
        if not problems and self._widest() > MAX_BITS:
            problems.append(f"sums may exceed {MAX_BITS} bits; use formats of a smaller range")
        return problems

    def plain(self, codes: Tensor) -> Tensor:
        return self.call.operands["data_in_0"].quantized.to_integers(codes)

    def sums(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        weight, bias, fraction, bounds = self._aligned()
        dtype = exact_dtype(bounds)
        columns = weight.t().to(dtype).contiguous()
        start = None if bias is None else bias.to(dtype)

        def compute(rows: Tensor) -> tuple[Tensor, Tensor]:
            rows = rows.to(dtype)
            sums = rows @ columns if start is None else torch.addmm(start, rows, columns)
            return sums.to(torch.int64), torch.tensor(-fraction)

        return compute

    @property
    def marks(self) -> bool:
        return self._encoding("data_in_0").kind is Kind.LEVELS

    def _encoding(self, name: str) -> Encoding:
        return self.call.operands[name].quantized.encoding

    def cell(self, feed: Feed) -> Cell:
        result = self.call.result
        if is_block(result):
            check_tiles(self.call.name, "data_out_0", result)
        product, fraction = self._fractions()
        biases = self.call.operands.get("bias")
        own = integer_fraction(biases.quantized) if biases else fraction
        return ScalarAccumulate(
            self._encoding("data_in_0"),
            self._encoding("weight"),
            self._encoding("bias") if biases else None,
            result.quantized.encoding,
            feed.terms,
            feed.rows,
            feed.in_lanes,
            feed.out_lanes,
            feed.beats,
            feed.group_terms,
            feed.tail,
            feed.windows and self.marks,
            result.size[1],
            self.call.once("sum width", lambda: max(2, width_for(self._aligned()[3]))),
            fraction,
            fraction - product,
            fraction - own,
        )

    def _fractions(self) -> tuple[int, int]:
        operands = self.call.operands
        product = integer_fraction(operands["data_in_0"].quantized) + integer_fraction(
            operands["weight"].quantized
        )
        if "bias" not in operands:
            return product, product
        return product, max(product, integer_fraction(operands["bias"].quantized))

    def _integers(self, name: str) -> Tensor:
        return self.call.operands[name].quantized.to_integers(self.call.constant_codes(name))

    def _aligned(self) -> tuple[Tensor, Tensor | None, int, Bounds]:
        """Return weight and bias in the unit of sums, its fraction bits, and bounds of sums."""
        product, fraction = self._fractions()
        weight = self.matrix(self._integers("weight")) << (fraction - product)
        bias = None
        if "bias" in self.call.operands:
            own = integer_fraction(self.call.operands["bias"].quantized)
            bias = self._integers("bias") << (fraction - own)
        low, high = self._encoding("data_in_0").limits
        ends = torch.stack([weight * low, weight * high])
        return weight, bias, fraction, Bounds.of_sums(ends.amin(0), ends.amax(0), bias)

    def _widest(self) -> float:
        """Return the bits of the widest sum of the weights, without overflow on the way."""
        product, fraction = self._fractions()
        low, high = self._encoding("data_in_0").limits
        weight = self.matrix(self._integers("weight")).double().abs().sum(dim=1)
        largest = weight * float(max(abs(low), high)) * 2.0 ** (fraction - product)
        if "bias" in self.call.operands:
            own = integer_fraction(self.call.operands["bias"].quantized)
            largest = largest + self._integers("bias").double().abs() * 2.0 ** (fraction - own)
        return float(torch.log2(largest.max().clamp(min=1.0))) + 1.0
