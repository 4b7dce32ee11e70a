"""Sums of products of integers with a real scale: exact sums of integers, requantized once.

See `mase_hw.arithmetic.requantize` for the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property

import torch
from torch import Tensor

from mase_hw.arithmetic.requantize import (
    SHIFT_BITS,
    dyadic,
    in_steps,
    is_scaled,
    multiplier_bits,
    operand_problems,
    scales,
    whole,
)
from mase_hw.cells import Cell, NetlistBuilder, Wire
from mase_hw.cells.centre import Centre
from mase_hw.cells.requantize import Requantize
from mase_hw.formats import SCALED, Encoding, names_in
from mase_hw.formats.fixed import MAX_WIDTH_BITS, Fixed
from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.geometry import TensorSpec
from mase_hw.ops._base import Call
from mase_hw.ops.products._fixed_product import FixedProduct
from mase_hw.ops.products._product import Feed, Product


def serves(call: Call) -> bool:
    """Return whether an operand or the result has a real scale."""
    return any(map(is_scaled, (*call.operands.values(), call.result)))


class ScaledProduct(Product):
    """Sums of integers, then a multiplier and a shift for each result."""

    def problems(self) -> list[str]:
        """Refuse other formats, scales along another axis, and sums beyond 32 bits."""
        call, found = self.call, list[str]()
        for name, spec in {**call.operands, **call.results}.items():
            if not isinstance(spec.format, ScaledInteger | Fixed):
                (scaled,) = names_in(SCALED)
                found.append(f"{name} is {spec.format}; beside {scaled} it must be that, or fixed")
            elif name not in ("weight", "bias"):
                found += operand_problems(name, spec)
        weight, legal = call.operands["weight"], call.operator.result_axis
        if isinstance(weight.format, ScaledInteger) and isinstance(weight.format.scale, tuple):
            given, count = weight.format.channel_axis or 0, len(weight.format.scale)
            if given % len(weight.shape) != legal or count != call.result.shape[self.axis]:
                found.append(
                    f"weight has {count} scales along dimension {given}; it must have "
                    f"{call.result.shape[self.axis]} along dimension {legal}, or one"
                )
        if found:
            return found
        if any(not 0 <= shift < 1 << SHIFT_BITS for _, shift in self._multipliers):
            return ["its scales differ too much; give data_out a scale nearer to the products'"]
        if (width := self._width()) > MAX_WIDTH_BITS:
            return [f"sums take {width} bits; integers with a scale have {MAX_WIDTH_BITS} at most"]
        return []

    def plain(self, codes: Tensor) -> Tensor:
        """Return the steps from zero."""
        return self.call.operands["data_in_0"].quantized.significands(codes)[0]

    def sums(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return the sums of integers."""
        return self.whole.sums()

    def grouped(self, groups: int) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return the sums of integers, see `FixedProduct.grouped`."""
        return self.whole.grouped(groups)

    def rounded(self, integers: Tensor, exponents: Tensor) -> Tensor:
        """Return the codes of sums times their multipliers."""
        shape = [1] * integers.dim()
        shape[self.axis] = len(self._multipliers)
        factors, shifts = (
            torch.tensor(part).reshape(shape) for part in zip(*self._multipliers, strict=True)
        )
        steps = in_steps(self.call.result.quantized)
        return steps.from_scaled(integers * factors, (-shifts).expand(integers.shape))

    @property
    def operands(self) -> Call:
        """The call on integers."""
        return self.whole.call

    def prepare(self, net: NetlistBuilder, data: Wire) -> Wire:
        """Subtract the zero point, where there is one."""
        number, port = self.call.operands["data_in_0"].quantized, net.port(data)
        if not isinstance(number, ScaledInteger) or number.centred:
            return data
        centre = Centre(number.encoding, port.fields[0].lanes, port.beats)
        return net.add(centre, "centre", data_in_0=data)

    def cell(self, feed: Feed) -> Cell:
        """Return the accumulator of integers."""
        return self.whole.accumulator(feed, Encoding(self._width()))

    def complete(self, net: NetlistBuilder, cell: Cell, feed: Feed, **inputs: Wire | None) -> Wire:
        """Requantize the sums."""
        sums = net.add(cell, "sums", **inputs)
        result = self.call.result.quantized
        bits, count = self._factor_bits, self.call.result.shape[self.axis]
        number = Fixed(bits + SHIFT_BITS, 0, signed=False)
        spec = TensorSpec((count,), format=number, parallelism=(1, feed.out_lanes))
        words = net.source("multiplier", spec, lambda: self._words().expand(count))
        requantize = Requantize(
            Encoding(self._width()),
            number.encoding,
            result.encoding,
            feed.rows,
            feed.out_lanes,
            bits,
            feed.beats // feed.terms,
        )
        return net.add(requantize, data_in_0=sums, multiplier=words)

    def _words(self) -> Tensor:
        bits = self._factor_bits
        if not bits:
            shifts = [shift - factor.bit_length() + 1 for factor, shift in self._multipliers]
            return torch.tensor(shifts)
        return torch.tensor([shift << bits | factor for factor, shift in self._multipliers])

    @property
    def _factor_bits(self) -> int:
        """Bits of the multipliers; none where all scales are powers of two up to one."""
        if all(
            factor.bit_count() == 1 and shift >= factor.bit_length() - 1
            for factor, shift in self._multipliers
        ):
            return 0
        return multiplier_bits(self.call.result.quantized)

    def _width(self) -> int:
        return max(2, self.whole.width())

    @cached_property
    def whole(self) -> FixedProduct:
        """The product of integers whose result are the sums."""
        call = self.call.once("on integers", self._on_integers)
        return FixedProduct(call, self.matrix, self.row, self.axis)

    def _on_integers(self) -> Call:
        call = self.call
        operands = {
            name: spec.with_format(whole(spec.quantized)) for name, spec in call.operands.items()
        }
        weight = call.operands["weight"].quantized
        constants = {"weight": weight.significands(call.constant_codes("weight"))[0].double()}
        if "bias" in call.operands:
            units = torch.tensor([float(unit) for unit in self._units()], dtype=torch.float64)
            spec = call.operands["bias"]
            values = spec.quantized.decode(call.constant_codes("bias"))
            constants["bias"] = torch.round(values / units)
            operands["bias"] = spec.with_format(Fixed(MAX_WIDTH_BITS, 0))
        results = {"data_out_0": call.result.with_format(Fixed(MAX_WIDTH_BITS, 0))}
        return Call(call.name, call.operator, operands, results, constants, call.attributes)

    def _units(self) -> list[Fraction]:
        """Return the value of one unit of a sum, for each result or for all."""
        (data,) = scales(self.call.operands["data_in_0"].quantized)
        return [data * weight for weight in scales(self.call.operands["weight"].quantized)]

    @cached_property
    def _multipliers(self) -> list[tuple[int, int]]:
        result = self.call.result.quantized
        (unit,) = scales(result)
        return [dyadic(item / unit, multiplier_bits(result)) for item in self._units()]
