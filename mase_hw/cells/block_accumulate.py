"""Sums of products of blocks with shared scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._accumulator import Accumulator, with_scale
from mase_hw.cells._base import Cell, Port
from mase_hw.cells._components import (
    Adder,
    Compare,
    Components,
    Counter,
    Gates,
    Mux,
    Offset,
    Register,
    Shifter,
)
from mase_hw.cells._encoder import (
    EXPONENT,
    accumulate_encode,
    cast_stages,
    scalar_decode,
    shift_right,
    significand_bits,
    sums_encoder,
)
from mase_hw.cells._fixed_components import dot_product
from mase_hw.cells._motion import Motion
from mase_hw.cells._scalar_components import scalar_dot_product
from mase_hw.formats import Encoding, Kind

# Bits by which sums move at once.
UNIT, UNIT_BITS = 16, 4


@dataclass(frozen=True)
class BlockAccumulate(Accumulator):
    """Exact sums within a block, which are added in floating point.

    Attributes:
        group_terms: beats after which blocks begin anew.
        size: results of a row.
        guard_bits: further bits of the sums.
        sum_width: bits of the sums.
    """

    group_terms: int = 1
    size: int = 1
    guard_bits: int = 8
    sum_width: int = 32

    @property
    def inputs(self) -> Mapping[str, Port]:
        """Each with its scales, a bias that is not there too."""
        found = super().inputs
        return {**found, "bias": found["bias"] if self.bias else with_scale(found["bias"])}

    @property
    def latencies(self) -> Mapping[str, int]:
        return {"CAST_STAGES": cast_stages(self.data_out_0)}

    @property
    def motion(self) -> Motion:
        """A dot product, its place beside the sum, the sum; then its codes.

        The place is found in five cycles while products are summed.
        """
        integers = self.data_in_0.kind is self.weight.kind is Kind.INTEGER
        dot = (2 if integers else 4) + self._levels
        stages = max(1, dot - 4) + 10
        return sums_encoder(self.terms, stages, self.data_out_0, self.out_lanes, self.size)

    @property
    def components(self) -> Components:
        """Dot products within blocks, their places, sums in floating point, and an encoder."""
        data, weight, bias = self.data_in_0, self.weight, self.bias
        lanes, results = self.in_lanes, self.rows * self.out_lanes
        integers = data.kind is weight.kind is Kind.INTEGER
        dot = (2 if integers else 4) + self._levels
        latency = max(1, dot - 4)
        wait = latency + 4 - dot
        block = max(min(data.block_size // lanes, self.group_terms), 1)
        shifts = sum((1 << code.exponent_width) - 2 for code in (data, weight) if not integers)
        left, right = significand_bits(data), significand_bits(weight)
        dot_width = left + right + shifts + self._levels
        summed = dot_width + (block - 1).bit_length()
        scale = max(data.scale_width, weight.scale_width) + 1
        control = Components.of(
            (Counter((block - 1).bit_length()), int(block > 1)),
            (Counter((self.group_terms - 1).bit_length()), int(self.group_terms > 1)),
            (Register(1), dot),
            Register(1, dot),
            Register(1, latency),
            Gates(4),
            Register(1),
            Register(1, 7),
            Register(1, 3),
            Register(4),
            Register(data.scale_width * self.rows, latency),
            Register(weight.scale_width * self.out_lanes, latency),
        )
        if integers:
            operands = self.rows * data.width + self.out_lanes * weight.width
            control += Components.of(Register(operands * lanes))
            products = dot_product(lanes, left, right)
        else:
            products = scalar_dot_product(data, weight, lanes, dot_width, 4)
        row = products + Components.of(Register(summed), Register(summed, wait))
        if block > 1:
            row += Components.of(Adder(summed, gated=True))
        row += self._sum(summed, scale)
        start = Components.of()
        if bias is not None:
            bits = significand_bits(bias)
            start = scalar_decode(bias) + Components.of(
                Register(bias.width + bias.scale_width),
                Register(bits, 4),
                Register(bias.scale_width + 2),
                Adder(bias.scale_width + 2),
            )
        encoded = accumulate_encode(
            self.terms,
            latency,
            10,
            self.out_lanes * bias.width + bias.scale_width if bias else 0,
            self.sum_width + UNIT - 1,
            self.data_out_0,
            self.rows,
            self.out_lanes,
            self.size,
            registered=1,
        )
        return control + row * results + start * self.out_lanes + encoded

    def _sum(self, block: int, scale: int) -> Components:
        """Components that add blocks of `block` bits in floating point, for one result."""
        wide = self.sum_width + UNIT - 1
        units = -(-(wide - 1) // UNIT)
        stored, shift = units * UNIT + 1, wide.bit_length()
        has_bias = self.bias is not None
        exponent = EXPONENT
        components = Components.of(
            # Exponents.
            Register(scale),
            Adder(scale),
            Offset(scale + 1, 4),
            Register(scale + 1, 2),
            Compare(exponent),
            (Mux(2, exponent), 2),
            Register(3 * exponent),
            (Adder(exponent + 1), 1 + has_bias),
            Register((exponent + 1) * (1 + has_bias)),
            Adder(exponent - UNIT_BITS),
            Register(exponent - UNIT_BITS),
            (Compare(exponent + 1, constant=True), 1 + has_bias),
            Gates(shift * (1 + has_bias)),
            Register(shift * (1 + has_bias)),
            Gates(units.bit_length()),
            Register(units.bit_length(), 3),
            Register(exponent, 5),
            Register(exponent - UNIT_BITS),
            # Masks.
            (Gates(UNIT - 1), 2),
            (Register(UNIT - 1), 2),
            # Sums.
            (Gates(units), 2),
            Register(units),
            Register(units.bit_length() + 1),
            Gates(2 * wide),
            Register(2 * stored),
            Adder(stored),
            Register(stored),
            Adder(stored),
            Shifter(stored, units + 1, UNIT),
            Register(stored),
            Gates(UNIT),
        )
        empty = self.guard_bits + UNIT - 1
        components += shift_right(min(wide, block + empty), shift, empty=empty, lost=False)
        if self.bias is not None:
            data = self.data_in_0
            below = data.width - 2
            if data.kind is Kind.FLOAT:
                below = data.width - 2 - data.exponent_width + data.exponent_bias
            empty += below
            bits = min(wide, significand_bits(self.bias) + empty)
            components += shift_right(bits, shift, empty=empty, lost=False)
        return components

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Blocks longer and shorter than a group, a result in blocks."""
        blocks = Encoding(6, block_size=4, scale_width=5, scale_bias=16, scale_codes=31)
        plain = cls(blocks, blocks, blocks, Encoding(8, fraction=2), 4, 1, 2, 2, 12)
        plain = replace(plain, group_terms=4, size=2)
        return (plain, replace(plain, group_terms=1, bias=None), replace(plain, data_out_0=blocks))
