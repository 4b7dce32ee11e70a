"""Sums of products of scalars: minifloat, log, ternary, binary, and fixed point beside them.

Values are integers in the unit of their format, so that products and sums are exact; the result
is rounded once, to its format. The accumulator is as wide as the worst case of the actual weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from mase_hw.geometry.beats import Cycles
from mase_hw.ops._accumulate import Bounds, exact_dtype, width_for
from mase_hw.ops._encode import result_problems
from mase_hw.ops._product import Product
from mase_hw.ops._scalars import MAX_BITS, integer_fraction, is_scalar, limits, scalar_problems


class ScalarProduct(Product):
    """Exact sums in one unit."""

    abbreviation: ClassVar[str] = "minifloat"

    def problems(self) -> list[str]:
        """Refuse odd scales, operands that are no scalars, and sums beyond 62 bits."""
        found = self.axis_problems()
        for name, spec in self.call.operands.items():
            if not is_scalar(spec):
                found.append(f"{name} is {spec.format}; beside scalars it must be one")
            else:
                found += scalar_problems(name, spec.quantized, result=False)
        found += result_problems(self.call.result)
        if not found and self._widest() > MAX_BITS:
            found.append(f"sums may exceed {MAX_BITS} bits; use formats of a smaller range")
        return found

    def plain(self, codes: Tensor) -> Tensor:
        """Return integers in the unit of the data."""
        return self.call.operands["data_in_0"].quantized.to_integers(codes)

    def sums(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return a matrix product in the narrowest dtype that is exact."""
        weight, bias, fraction, bounds = self._aligned()
        dtype = exact_dtype(bounds)
        columns = weight.t().to(dtype).contiguous()
        start = None if bias is None else bias.to(dtype)

        def compute(rows: Tensor) -> tuple[Tensor, Tensor]:
            rows = rows.to(dtype)
            found = rows @ columns if start is None else torch.addmm(start, rows, columns)
            return found.to(torch.int64), torch.tensor(-fraction)

        return compute

    def parameters(self) -> Mapping[str, int | str]:
        """Return the accumulator's width and unit, and the places of products and biases."""
        product, fraction = self._fractions()
        biases = self.call.operands.get("bias")
        own = integer_fraction(biases.quantized) if biases else fraction
        return {
            "SUM_WIDTH": max(2, width_for(self._aligned()[3])),
            "SUM_FRACTION": fraction,
            "DOT_SHIFT": fraction - product,
            "BIAS_SHIFT": fraction - own,
        }

    def complete(self, met: Cycles) -> Cycles:
        """A product, a tree of adders, a sum."""
        return met + 2 + (self.call.operands["data_in_0"].parallelism[1] - 1).bit_length()

    def _fractions(self) -> tuple[int, int]:
        """Return the fraction bits of products, and of sums."""
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
        low, high = limits(self.call.operands["data_in_0"].quantized)
        ends = torch.stack([weight * low, weight * high])
        return weight, bias, fraction, Bounds.of_sums(ends.amin(0), ends.amax(0), bias)

    def _widest(self) -> float:
        """Return the bits of the widest sum of the weights, without overflow on the way."""
        product, fraction = self._fractions()
        low, high = limits(self.call.operands["data_in_0"].quantized)
        weight = self.matrix(self._integers("weight")).double().abs().sum(dim=1)
        largest = weight * float(max(abs(low), high)) * 2.0 ** (fraction - product)
        if "bias" in self.call.operands:
            own = integer_fraction(self.call.operands["bias"].quantized)
            largest = largest + self._integers("bias").double().abs() * 2.0 ** (fraction - own)
        return float(torch.log2(largest.max().clamp(min=1.0))) + 1.0
