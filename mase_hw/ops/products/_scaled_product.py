"""Sums of products of integers with a real scale: exact sums of integers, requantized once.

See `mase_hw.arithmetic.requantize` for the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import torch
from torch import Tensor

from mase_hw.arithmetic.exact_requantize import (
    MOST_BITS,
    MOST_SUM_BITS,
    Requantization,
    Sums,
    exact_requantization,
    rounded_products,
)
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
from mase_hw.formats import SCALED, Encoding, Format, names_in
from mase_hw.formats.fixed import MAX_WIDTH_BITS, Fixed
from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.geometry import TensorSpec
from mase_hw.ops._base import Call
from mase_hw.ops._interfaces import Weighted
from mase_hw.ops.products._fixed_product import FixedProduct
from mase_hw.ops.products._product import EXACT, Feed, Product


def serves(call: Call) -> bool:
    """True if an operand or the result has a real scale."""
    return any(map(is_scaled, (*call.operands.values(), call.result)))


class ScaledProduct(Product):
    """Sums of integers, then a multiplier and a shift for each result."""

    def problems(self) -> list[str]:
        call, problems = self.call, list[str]()
        for name, spec in {**call.operands, **call.results}.items():
            if not isinstance(spec.format, ScaledInteger | Fixed):
                (scaled,) = names_in(SCALED)
                problems.append(
                    f"{name} is {spec.format}; beside {scaled} it must be that, or fixed"
                )
            elif name not in ("weight", "bias"):
                problems += operand_problems(name, spec)
        weight, legal = call.operands["weight"], Weighted.of(call.operator).result_axis
        if isinstance(weight.format, ScaledInteger) and isinstance(weight.format.scale, tuple):
            axis, count = weight.format.channel_axis or 0, len(weight.format.scale)
            if axis % len(weight.shape) != legal or count != call.result.shape[self.axis]:
                problems.append(
                    f"weight has {count} scales along dimension {axis}; it must have "
                    f"{call.result.shape[self.axis]} along dimension {legal}, or one"
                )
        if problems:
            return problems
        if self._exact and self._requantization is None:
            return [
                f"no multiplier of {MOST_BITS} bits, beside sums of {MOST_SUM_BITS}, gives every "
                "sum the code of the exact scales: give data_out fewer bits"
            ]
        if any(not 0 <= shift < 1 << self._shift_bits for _, shift in self._multipliers):
            return ["its scales differ too much; give data_out a scale nearer to the products'"]
        most = MOST_SUM_BITS if self._exact else MAX_WIDTH_BITS
        if (width := self._width()) > most:
            return [f"sums take {width} bits; integers with a scale have {most} at most"]
        return []

    def plain(self, codes: Tensor) -> Tensor:
        return self.call.operands["data_in_0"].quantized.significands(codes)[0]

    def sums(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        return self.whole.sums()

    def grouped(self, groups: int) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return the sums of integers, see `FixedProduct.grouped`."""
        return self.whole.grouped(groups)

    def rounded(self, integers: Tensor, exponents: Tensor) -> Tensor:
        shape = [1] * integers.dim()
        shape[self.axis] = len(self._multipliers)
        factors, shifts = (
            torch.tensor(part).reshape(shape) for part in zip(*self._multipliers, strict=True)
        )
        steps = in_steps(self.call.result.quantized)
        if self._requantization is not None:
            return rounded_products(integers, factors, shifts, steps)
        return steps.from_scaled(integers * factors, (-shifts).expand(integers.shape))

    @property
    def operands(self) -> Call:
        return self.whole.call

    def prepare(self, net: NetlistBuilder, data: Wire) -> Wire:
        number, port = self.call.operands["data_in_0"].quantized, net.port(data)
        if not isinstance(number, ScaledInteger) or number.centred:
            return data
        centre = Centre(number.encoding, port.fields[0].lanes, port.beats)
        return net.add(centre, "centre", data_in_0=data)

    def cell(self, feed: Feed) -> Cell:
        return self.whole.accumulator(feed, self._sum)

    def complete(self, net: NetlistBuilder, cell: Cell, feed: Feed, **inputs: Wire | None) -> Wire:
        sums = net.add(cell, "sums", **inputs)
        result = self.call.result.quantized
        bits, count = self._factor_bits, self.call.result.shape[self.axis]
        number = Fixed(bits + self._shift_bits, 0, signed=False)
        spec = TensorSpec((count,), format=number, parallelism=(1, feed.out_lanes))
        words = net.source("multiplier", spec, lambda: self._words().expand(count))
        requantize = Requantize(
            self._sum,
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
        if self._requantization is not None:
            return self._requantization.bits
        return multiplier_bits(self.call.result.quantized)

    @property
    def _sum(self) -> Encoding:
        """The sums, whose biases may have a fraction; multipliers count from their last bit."""
        requantization = self._requantization
        return Encoding(
            self._width(), fraction=0 if requantization is None else requantization.fraction
        )

    @property
    def _shift_bits(self) -> int:
        if self._requantization is None:
            return SHIFT_BITS
        return max(SHIFT_BITS, *(shift.bit_length() for _, shift in self._multipliers))

    def _width(self) -> int:
        return max(2, self.whole.width())

    @property
    def _exact(self) -> bool:
        """Whether every sum is to get the code of the exact scales."""
        return bool(self.call.attributes.get(EXACT, 0))

    @cached_property
    def whole(self) -> FixedProduct:
        """The product of integers whose result are the sums."""
        if self._requantization is None:
            return self._unshifted
        call = self.call.once("exact on integers", self._with_biases)
        return FixedProduct(call, self.matrix, self.row, self.axis)

    @cached_property
    def _unshifted(self) -> FixedProduct:
        """The same with biases rounded to units of the sums."""
        call = self.call.once("on integers", self._on_integers)
        return FixedProduct(call, self.matrix, self.row, self.axis)

    @cached_property
    def _requantization(self) -> Requantization | None:
        """What gives every sum its exact code, where that is asked for."""
        if not self._exact:
            return None
        return self.call.once("requantization", self._found)

    def _found(self) -> Requantization | None:
        """Look for it, over all sums that the weights can make."""
        result = self.call.result.quantized
        (step,) = scales(result)
        weight = self.matrix(self._unshifted.call.constant_codes("weight"))
        low, high = _ends(self.call.operands["data_in_0"].quantized)
        above, below = weight.clamp(min=0).sum(1), weight.clamp(max=0).sum(1)
        least, most = (above * low + below * high).tolist(), (above * high + below * low).tolist()
        units, count = self._units(), len(weight)
        units = units * count if len(units) == 1 else units
        biases = self._biases(count)
        sums = [
            Sums(unit / step, bias / step, first, last)
            for unit, bias, first, last in zip(units, biases, least, most, strict=True)
        ]
        return exact_requantization(sums, result, multiplier_bits(result))

    def _biases(self, count: int) -> list[Fraction]:
        if "bias" not in self.call.operands:
            return [Fraction(0)] * count
        spec = self.call.operands["bias"]
        number = spec.quantized
        integers, exponents = number.significands(self.call.constant_codes("bias"))
        steps = [Fraction(1)] * count
        if isinstance(number, ScaledInteger):
            steps = list(scales(number)) * (1 if len(number.scales) > 1 else count)
        return [
            code * Fraction(2) ** exponent * step
            for code, exponent, step in zip(
                integers.tolist(), exponents.tolist(), steps, strict=True
            )
        ]

    def _with_biases(self) -> Call:
        requantization, call = self._requantization, self._unshifted.call
        assert requantization is not None
        operands, constants = dict(call.operands), dict(call.constants)
        if any(requantization.biases) or "bias" in operands:
            unit = 2.0**-requantization.fraction
            constants["bias"] = torch.tensor(requantization.biases, dtype=torch.float64) * unit
            bias = TensorSpec(
                (len(requantization.biases),), format=Fixed(MOST_SUM_BITS, requantization.fraction)
            )
            operands["bias"] = bias
        return replace(call, operands=operands, constants=constants, _known={})

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
        if self._requantization is not None:
            return list(self._requantization.multipliers)
        result = self.call.result.quantized
        (unit,) = scales(result)
        return [dyadic(item / unit, multiplier_bits(result)) for item in self._units()]


def _ends(number: Format) -> tuple[int, int]:
    """Return the least and the largest value of a format in its steps."""
    if isinstance(number, ScaledInteger):
        (low, high), (point,) = number.code_range, number.zero_points
        return low - point, high - point
    assert isinstance(number, Fixed)
    return number.minimum_code, number.maximum_code
