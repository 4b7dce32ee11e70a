"""Sums of products of blocks with shared scales: integers (MXINT, block floating point), floats.

The products of a block are summed exactly, in units of the product of both elements' lowest steps.
The sums of blocks are added in order of the row, after the bias, in floating point with further
bits: of the sum so far and the next block, the one with the smaller exponent is shifted right to
the other's exponent, rounding down. As many further bits are kept as the exponents may differ, so
that nothing is lost and the result is rounded once, where sums then take `EXACT_BITS` at most:
where scales have few exponents. Otherwise `GUARD_BITS` are kept, or `sum_guard_bits` where a
configuration gives them, and the result is rounded once more. Every step is the same whatever the
parallelism.

A convolution takes the pixels of its window in row-major order, each with the blocks of its
channels; the last block of a pixel may be shorter. A pixel outside the image is a block of zeros,
which has the smallest scale.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw.arithmetic.scalars import result_problems
from mase_hw.arithmetic.scaled import Scaled, add
from mase_hw.arithmetic.sums import Bounds, exact_dtype
from mase_hw.cells import Cell
from mase_hw.cells.block_accumulate import BlockAccumulate
from mase_hw.formats import BLOCKS, names_in
from mase_hw.geometry.blocks import block, check_tiles, is_block
from mase_hw.ops.products._product import GUARD, Feed, Product

GUARD_BITS = 8
MAX_SUM_BITS = 62
# The accumulator of an UltraScale+ DSP block.
EXACT_BITS = 48
# An exponent below every other.
LOWEST_EXPONENT = -(1 << 11)


class BlockProduct(Product):
    """Sums of blocks in floating point."""

    guards = True

    def problems(self) -> list[str]:
        problems = self.axis_problems()
        for name, spec in self.call.operands.items():
            if not is_block(spec):
                problems.append(
                    f"{name} is {spec.format}; beside blocks it must be one of "
                    f"{', '.join(names_in(BLOCKS))}"
                )
        problems += result_problems(self.call.result)
        if problems:
            return problems
        sizes = {name: self._size(name) for name in ("data_in_0", "weight")}
        if len(set(sizes.values())) > 1:
            problems.append(
                f"data_in_0 has blocks of {sizes['data_in_0']}, weight of {sizes['weight']}: "
                "configure one block_size"
            )
        elif self._sum_width(self.guard_bits) > MAX_SUM_BITS:
            asked = GUARD in self.call.attributes
            fix = (
                f"fewer than {self.guard_bits} {GUARD}" if asked else "elements of a smaller range"
            )
            problems.append(f"sums may exceed {MAX_SUM_BITS} bits; use {fix}")
        return problems

    def notes(self) -> list[str]:
        kept, exact = self.guard_bits, max(self._distance(), GUARD_BITS)
        width = f"sums of {self._sum_width(kept)} bits"
        if self.is_exact:
            return [f"{width}, {kept} of them guard bits, lose nothing"]
        return [
            f"{width} keep {kept} guard bits and are rounded down where exponents differ; exact "
            f"ones take {self._sum_width(exact)} bits, {exact} of them guard bits: give scales "
            f"fewer exponents, or set {GUARD}"
        ]

    def sums(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        data, weight = (block(self.call.operands[name]) for name in ("data_in_0", "weight"))
        bits, scales = weight.split(self.matrix(self.call.constant_codes("weight")))
        dtype = exact_dtype(Bounds(-self._largest_dot(), self._largest_dot()))
        columns = weight.element.integers(bits).t().to(dtype)
        guard = self.guard_bits
        shift = data.element.lsb_exponent + weight.element.lsb_exponent - guard
        start, start_exponent = self._start()

        def compute(codes: Tensor) -> tuple[Tensor, Tensor]:
            bits, exponents = data.split(codes)
            rows = data.element.integers(bits).to(dtype)
            total = Scaled(start.expand(len(rows), -1), start_exponent.expand(len(rows), -1))
            for part in self._parts(rows.shape[1]):
                term = (rows[:, part] @ columns[part]).to(torch.int64) << guard
                term_place = exponents[:, part.start, None] + scales[None, :, part.start] + shift
                total = add(total, Scaled(term, term_place))
            return total.integers, total.exponents

        return compute

    def cell(self, feed: Feed) -> Cell:
        name, operands, result = self.call.name, self.call.operands, self.call.result
        check_tiles(name, "data_in_0", operands["data_in_0"])
        if "bias" in operands:
            check_tiles(name, "data_out_0", operands["bias"].with_parallelism(1, feed.out_lanes))
        if is_block(result):
            check_tiles(name, "data_out_0", result)
        return BlockAccumulate(
            operands["data_in_0"].quantized.encoding,
            operands["weight"].quantized.encoding,
            operands["bias"].quantized.encoding if "bias" in operands else None,
            result.quantized.encoding,
            feed.terms,
            feed.rows,
            feed.in_lanes,
            feed.out_lanes,
            feed.beats,
            feed.group_terms,
            result.size[1],
            self.guard_bits,
            self.call.once("sum width", lambda: self._sum_width(self.guard_bits)),
        )

    def _size(self, name: str) -> int:
        return block(self.call.operands[name]).blocking[0]

    def _parts(self, terms: int) -> list[slice]:
        """Return the blocks of a row, none across its pixels."""
        size = self._size("data_in_0")
        return [
            slice(first, min(first + size, pixel + self.row))
            for pixel in range(0, terms, self.row)
            for first in range(pixel, pixel + self.row, size)
        ]

    def _start(self) -> tuple[Tensor, Tensor]:
        """Return the bias as int64 significands and exponents of their lowest bit."""
        if "bias" not in self.call.operands:
            count = len(self.matrix(self.call.constants["weight"]))
            return torch.zeros(count, dtype=torch.int64), torch.full((count,), LOWEST_EXPONENT)
        significands, exponents = self._bias()
        left = self._bias_left(self.guard_bits)
        return significands << left, exponents - left

    def _bias(self) -> tuple[Tensor, Tensor]:
        """Return the bias as int64 significands and exponents."""
        number = block(self.call.operands["bias"])
        bits, scales = number.split(self.call.constant_codes("bias"))
        significands, exponents = number.element.significands(bits)
        return significands, exponents + scales + number.element.lsb_exponent

    def _bias_left(self, guard: int) -> int:
        """Return the further bits of a bias, as many as products have below theirs."""
        return guard - block(self.call.operands["data_in_0"]).element.lsb_exponent

    @property
    def guard_bits(self) -> int:
        """The further bits of sums."""
        return self.call.once("guard bits", self._affordable)

    @property
    def is_exact(self) -> bool:
        """Whether sums lose nothing, whatever the data are."""
        return self.guard_bits >= self._distance()

    def _affordable(self) -> int:
        if GUARD in self.call.attributes:
            return int(self.call.attributes[GUARD])
        exact = max(self._distance(), GUARD_BITS)
        return exact if self._sum_width(exact) <= EXACT_BITS else GUARD_BITS

    def _distance(self) -> int:
        """Return the most places between the lowest bits of two terms of any sum, the bias too."""
        data, weight = (block(self.call.operands[name]) for name in ("data_in_0", "weight"))
        bits, scales = weight.split(self.matrix(self.call.constant_codes("weight")))
        # The place of a zero does not count, but what is above it is never shifted to it.
        counted = scales[weight.element.integers(bits) != 0]
        if not counted.numel():
            counted = scales.reshape(-1)
        unit = data.element.lsb_exponent + weight.element.lsb_exponent
        low = unit - data.scale.bias + int(counted.min())
        high = unit + data.scale.codes - 1 - data.scale.bias + int(scales.max())
        distances = [high - low]
        if "bias" in self.call.operands:
            significands, places = self._bias()
            known = places[significands != 0]
            if known.numel():
                # A bias is stored as far above its lowest bit as products are, and the data's own.
                distances.append(high - int(known.min()))
                distances.append(int(known.max()) + data.element.lsb_exponent - low)
        return max(distances)

    def _largest(self, name: str) -> int:
        """Return the largest magnitude of an element in units of its lowest step."""
        element = block(self.call.operands[name]).element
        # Also the most negative integer.
        return int(element.maximum * 2.0**-element.lsb_exponent) + 1

    def _largest_dot(self) -> int:
        return self._size("data_in_0") * self._largest("data_in_0") * self._largest("weight")

    def _sum_width(self, guard: int) -> int:
        """Return the bits of the widest sum with `guard` further bits."""
        terms = self.matrix(self.call.constants["weight"]).shape[1]
        largest = (terms * self._largest("data_in_0") * self._largest("weight")) << guard
        if "bias" in self.call.operands:
            largest += int(self._bias()[0].abs().max()) << self._bias_left(guard)
        # Rounding down takes up to one from every term.
        return (largest + terms + 1).bit_length() + 1
