"""Exact sums of products in fixed point, rounded once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._accumulator import Accumulator
from mase_hw.cells._base import Cell, Port, Value
from mase_hw.cells._components import NOTHING, Adder, Components, Offset, Product, Register
from mase_hw.cells._device import PACKED_BITS, SHARED_BITS, Device, block_products, pair_chain
from mase_hw.cells._fixed_components import cast, dot_product, tree
from mase_hw.cells._growing import GrowingFold, growth_parameters
from mase_hw.cells._motion import Fold, Motion
from mase_hw.cells._pipeline import accumulate_pipeline
from mase_hw.formats import Encoding
from mase_hw.geometry.growth import Growth

# From here on the code of all lanes outgrows the caches of a processor: a simulation calls the code
# of one dot product for each result instead. Fewer lanes are faster as code of their own.
SHARED_MULTIPLIERS = 256


@dataclass(frozen=True)
class MultiplyAccumulate(Accumulator):
    """Sums in the narrowest accumulator that the actual weights allow.

    Attributes:
        separate: whether each result has elements of its own.
        accumulator_width: bits of the sums.
        tail: elements of a row that count in the last beat of a sum; 0 for all of them.
        sums: the beats of each sum where they grow, the longest having `terms`; None otherwise.
        steady: whether weights and biases come from memories that never pause.
        device: whose blocks make two or four products at once where results share their elements.
    """

    separate: bool = False
    accumulator_width: int = 20
    tail: int = 0
    sums: Growth | None = None
    device: Device = Device.GENERIC
    steady: bool = False

    def on(self, device: Device, steady: Collection[str] = ()) -> MultiplyAccumulate:
        """Return the same with the blocks of a device, and what waits for no constants."""
        constants = {"weight", *(["bias"] if self.bias else [])}
        return replace(self, device=device, steady=constants <= set(steady))

    def multiplexed(self, others: Sequence[Cell]) -> Cell:
        """Return the same with sums that are wide enough for the weights of all."""
        cells = [self, *(cell for cell in others if isinstance(cell, MultiplyAccumulate))]
        width = max(cell.accumulator_width for cell in cells)
        first, *rest = (replace(cell, accumulator_width=width) for cell in cells)
        return super(MultiplyAccumulate, first).multiplexed([*rest, *others[len(rest) :]])

    @property
    def _group(self) -> int:
        """Results of a row whose products come from one block."""
        return 1 if self.separate else block_products(self.device, self.data_in_0, self.weight)

    def _data_port(self) -> Port:
        lanes = self.in_lanes * (self.out_lanes if self.separate else 1)
        return Port.elements(self.data_in_0, lanes, self.beats, rows=self.rows)

    @property
    def _results(self) -> int:
        return self.sums.count(self.beats) if self.sums else super()._results

    @property
    def parameters(self) -> Mapping[str, Value]:
        return {**super().parameters, **growth_parameters(self.sums, "SUMS")}

    @property
    def _scales(self) -> bool:
        return False

    @property
    def motion(self) -> Motion:
        """Operands, products, a tree of adders, the sum, its rounding, a queue."""
        if self.sums is not None:
            return GrowingFold(self.terms, 7 + self._levels, sums=self.sums)
        return Fold(self.terms, 7 + self._levels)

    @property
    def components(self) -> Components:
        """Dot products, sums and their casts, and a pipeline of rounds."""
        data, weight, out = self.data_in_0, self.weight, self.data_out_0
        results, bias = self.rows * self.out_lanes, self.bias.width if self.bias else 0
        left, right = data.width + (not data.signed), weight.width + (not weight.signed)
        fraction = data.fraction + weight.fraction
        fraction = max(fraction, self.bias.fraction) if self.bias else fraction
        sums = NOTHING
        shifted = left + right + self._levels + fraction - data.fraction - weight.fraction
        width = self.accumulator_width if self.terms > 1 or bias else shifted
        if self.terms > 1 or bias:
            sums += Components.of(Adder(width, gated=True, full=True))
        sums += Components.of(Register(width)) + cast(width, fraction, out)
        groups = self.out_lanes // self._group if self._group > 1 else 0
        single = self.out_lanes - groups * self._group
        products = dot_product(self.in_lanes, left, right) * (self.rows * single)
        products += self._grouped(left + right) * (self.rows * groups)
        # What is packed has its registers in the blocks.
        operands = self.weight.width * self.in_lanes * single
        operands += self._data_port().width_bits if single else 0
        pipeline = accumulate_pipeline(
            self.terms,
            2 + self._levels,
            3,
            self.out_lanes * bias,
            results * out.width,
            steady=self.steady,
            copies=results,
            growth=self.sums,
        )
        return sums * results + products + Components.of(Register(operands)) + pipeline

    def _grouped(self, width: int) -> Components:
        """Return `mase_dot_shared` of products of so many bits, in blocks."""
        blocks = Components.of((Product(PACKED_BITS, SHARED_BITS), self.in_lanes))
        if self._group == 4:
            # What the fields of some lanes lack is added to one of them.
            lacking = Components.of((Offset(width, ones=width), -(-self.in_lanes >> (width - 2))))
            return blocks + (lacking + tree(self.in_lanes, width)) * 4
        chain = min(pair_chain(self.data_in_0, self.weight), self.in_lanes)
        groups = -(-self.in_lanes // max(chain, 1))
        return blocks + tree(groups, width + (chain - 1).bit_length()) * 2

    @property
    def repeated(self) -> tuple[str, ...]:
        """The dot product of each result, where there are many multipliers."""
        return ("mase_dot_product",) if self.multipliers >= SHARED_MULTIPLIERS else ()

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """With and without bias, one term, separate results, and a tail."""
        data, weight, bias = Encoding(6, fraction=3), Encoding(5, fraction=4), Encoding(7)
        plain = cls(data, weight, bias, Encoding(8, fraction=2), 3, 2, 3, 2, 12)
        single = replace(plain, terms=1, bias=None, in_lanes=1, data_in_0=Encoding(4, signed=False))
        tail = replace(plain, bias=None, tail=1)
        wide = replace(plain, rows=1, in_lanes=5, out_lanes=3, device=Device.XCUP)
        four = Encoding(4, fraction=2)
        quad = replace(plain, data_in_0=four, weight=four, in_lanes=4, out_lanes=5)
        quad = replace(quad, device=Device.XCUP)
        growing = replace(plain, bias=None, rows=1, beats=18, sums=Growth(1, 2, 5))
        return (plain, single, wide, quad, replace(plain, rows=1, separate=True), tail, growing)
