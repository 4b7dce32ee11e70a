"""Exact sums of products of any scalar formats, rounded once to any format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._accumulator import Accumulator, marked
from mase_hw.cells._base import Cell, Port
from mase_hw.cells._components import Adder, Components, Counter, Register, Shifter
from mase_hw.cells._encoder import (
    accumulate_encode,
    cast_stages,
    scalar_decode,
    sums_encoder,
    varying_bits,
)
from mase_hw.cells._motion import Motion
from mase_hw.cells._pipeline import index_bits
from mase_hw.cells._scalar_components import scalar_dot_product
from mase_hw.formats import Encoding, Kind


@dataclass(frozen=True)
class ScalarAccumulate(Accumulator):
    """Sums in one unit of all products.

    Attributes:
        group_terms: beats after which the lanes that count begin anew.
        tail: lanes that count in the last of them.
        marked: whether a bit above each element says that it counts.
        size: results of a row.
        sum_width: bits of the sums.
        sum_fraction: their fraction bits.
        dot_shift: bits by which products are shifted to that.
        bias_shift: bits by which biases are.
    """

    group_terms: int = 1
    tail: int = 1
    marked: bool = False
    size: int = 1
    sum_width: int = 32
    sum_fraction: int = 0
    dot_shift: int = 0
    bias_shift: int = 0

    def _data_port(self) -> Port:
        port = super()._data_port()
        return marked(port) if self.marked else port

    @property
    def latencies(self) -> Mapping[str, int]:
        return {"CAST_STAGES": cast_stages(self.data_out_0)}

    @property
    def motion(self) -> Motion:
        """Significands, products, their shifts, a tree of adders, the sum; then its codes."""
        floats = Kind.FLOAT in {self.data_in_0.kind, self.weight.kind, self._bias_kind}
        stages = (4 if floats else 2) + self._levels + 1
        return sums_encoder(self.terms, stages, self.data_out_0, self.out_lanes, self.size)

    @property
    def components(self) -> Components:
        """Dot products of decoded codes, their sums, and an encoder."""
        results, lanes = self.rows * self.out_lanes, self.in_lanes
        bias, out = self.bias, self.data_out_0
        floats = Kind.FLOAT in {self.data_in_0.kind, self.weight.kind, self._bias_kind}
        stages = 4 if floats else 2
        sums = scalar_dot_product(self.data_in_0, self.weight, lanes, self.sum_width, stages)
        gated = self.terms > 1 or bias is not None
        sums += Components.of(Adder(self.sum_width, gated), Register(self.sum_width))
        encoded = accumulate_encode(
            self.terms,
            1 + self._levels,
            stages,
            self.out_lanes * (bias.width if bias else 0),
            self.sum_width,
            out,
            self.rows,
            self.out_lanes,
            self.size,
            fixed=True,
        )
        flags = Components.of(Register(stages - 1), Register(1, stages - 1))
        if self.group_terms > 1:
            flags += Components.of(Counter(index_bits(self.group_terms)))
        starts = Components.of()
        if bias is not None:
            bits = varying_bits(bias)
            if bias.kind is Kind.FLOAT:
                starts = scalar_decode(bias) + Components.of(
                    Register(2 * bits + 2 + 2 * bias.exponent_width + self.sum_width),
                    Shifter(bits + 3, 4),
                    Shifter(self.sum_width, 1 << max(bias.exponent_width - 2, 0), 4, left=bits + 3),
                )
            else:
                starts = Components.of(Register(bits, stages - 1))
        return sums * results + starts * self.out_lanes + flags + encoded

    @property
    def _bias_kind(self) -> Kind | None:
        return self.bias.kind if self.bias else None

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Floats, signs that are marked, a result in blocks."""
        data, weight = Encoding(6, Kind.FLOAT, exponent_width=3), Encoding(2, Kind.SYMMETRIC)
        plain = cls(data, weight, Encoding(5), Encoding(8, fraction=2), 4, 1, 3, 2, 12)
        plain = replace(plain, group_terms=2, tail=2, size=2, sum_width=24, sum_fraction=4)
        signs = Encoding(1, Kind.LEVELS)
        blocks = Encoding(6, block_size=4, scale_width=5, scale_bias=16, scale_codes=31)
        return (
            plain,
            replace(plain, data_in_0=signs, weight=signs, bias=None, marked=True),
            replace(plain, data_out_0=blocks, size=4, beats=16),
        )
