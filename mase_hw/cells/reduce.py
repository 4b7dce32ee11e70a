"""Sums, means and maxima, rounded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import NO_STREAM, Cell, Port, fact
from mase_hw.cells._components import (
    Adder,
    Compare,
    Components,
    Gates,
    Mux,
    Offset,
    Product,
    Register,
)
from mase_hw.cells._fixed_components import cast, tree
from mase_hw.cells._motion import Chain, Fold, Motion, Steps
from mase_hw.cells._pipeline import (
    counter,
    join,
    round_pipeline,
    round_store,
    stream_pipeline,
)
from mase_hw.formats import Encoding, Rounding


@dataclass(frozen=True)
class Reduce(Cell):
    """Several beats become one, lane by lane or over a row; the result may be divided.

    Attributes:
        data_in_0: of the elements, integers.
        data_out_0: of the results, integers.
        lanes: elements of a beat.
        maximum: whether the largest is meant, not the sum.
        row: elements of a row whose lanes are reduced too; 0 where lanes stay apart.
        terms: beats of a result.
        inner: beats of a round.
        sum_width: bits of a sum.
        divisor: what results are divided by, an odd number.
        shift: factors of two that they are divided by too.
        factor_width: bits of the factor that comes for each result; 0 for none.
        beats: beats of one inference.
    """

    data_in_0: Encoding
    data_out_0: Encoding
    lanes: int
    maximum: bool
    row: int
    terms: int
    inner: int
    sum_width: int
    divisor: int = 1
    shift: int = 0
    factor_width: int = 0
    beats: int = fact(1)

    @property
    def inputs(self) -> Mapping[str, Port]:
        factor = Port.elements(Encoding(self.factor_width), 1, self.beats // self.terms)
        return {
            "data_in_0": Port.elements(self.data_in_0, self.lanes, self.beats),
            "factor": factor if self.factor_width else NO_STREAM,
        }

    @property
    def outputs(self) -> Mapping[str, Port]:
        beats = self.beats // self.terms
        return {"data_out_0": Port.elements(self.data_out_0, self._lanes_out, beats)}

    @property
    def motion(self) -> Motion:
        """The lanes of a row, sums, and the products, quotients and results behind them."""
        part = 2 + ((self.lanes - 1).bit_length() if self.row else 0)
        behind = 4 if self.divisor > 1 else 2
        if self.factor_width:
            return Chain((Fold(self.terms, part + 3, self.inner), Steps(behind + 4)))
        return Fold(self.terms, part + behind + 3, self.inner)

    @property
    def multipliers(self) -> int:
        """One a lane for the factor, and for the reciprocal of the divisor."""
        return ((self.factor_width > 0) + (self.divisor > 1)) * self._lanes_out

    @property
    def components(self) -> Components:
        """Sums or maxima over lanes and beats, a factor, a quotient, and its pipeline."""
        out, lanes = self.data_out_0, self._lanes_out
        wide = self.sum_width
        part = 2 + ((self.lanes - 1).bit_length() if self.row else 0)
        components = self._lane_components()
        if self.terms > 1:
            one = (
                Components.of(Compare(wide), Mux(2, wide))
                if self.maximum
                else Components.of(Adder(wide, gated=True))
            )
            components += one * lanes
        components += round_store(wide * lanes, self.inner)
        product = wide + self.factor_width
        behind = 4 if self.divisor > 1 else 2
        components += self._quotient(product) * lanes
        if not self.factor_width:
            return components + round_pipeline(
                self.terms, part, 1 + behind, lanes * out.width, self.inner
            )
        factor = Components.of(Register(self.factor_width), (Register(wide + product), lanes))
        factor += Components.of((Product(wide, self.factor_width + 1), lanes)) + join(2)
        rounds = round_pipeline(self.terms, part, 1, lanes * wide, self.inner)
        return components + factor + rounds + stream_pipeline(lanes * out.width, 2 + behind)

    def _lane_components(self) -> Components:
        """Components that reduce a beat to one number for each lane that leaves."""
        width = self.data_in_0.width
        if not self.row:
            return Components.of((Register(2 * width), self.lanes))
        tiles = -(-self.row // self.lanes)
        outside = self.lanes - (self.row - (tiles - 1) * self.lanes)
        components = counter(tiles) + Components.of((Register(2 * width), self.lanes))
        components += Components.of(Register(1 if outside else 0), (Gates(width), outside))
        if not self.maximum:
            return components + tree(self.lanes, width + (not self.data_in_0.signed))
        inputs = self.lanes
        while inputs > 1:
            pairs = inputs // 2
            components += Components.of((Compare(width), pairs), (Mux(2, width), pairs))
            inputs -= pairs
            components += Components.of(Register(width * inputs))
        return components

    def _quotient(self, width: int) -> Components:
        """Return `mase_fixed_divide` of numbers of so many bits, less the register of results."""
        out, fraction = self.data_out_0, self.data_in_0.fraction + self.shift
        if self.divisor == 1:
            return cast(width, fraction, out)
        shift = max(out.fraction + 1 - fraction, 0)
        numerator = width + shift + 2
        bits = (self.divisor - 1).bit_length()
        reciprocal = numerator + 1
        product = 2 * numerator + 2
        quotient = product - numerator - bits
        components = Components.of(
            Offset(numerator, numerator // 2),
            Register(numerator - shift),
            Product(numerator + 1, reciprocal),
            Register(product),
            Offset(quotient + 1, quotient // 2),
            Offset(numerator + bits, (numerator + bits) // 2),
            Gates(3),
        )
        return components + cast(quotient + 2, fraction + shift + 1, out)

    @property
    def _lanes_out(self) -> int:
        return 1 if self.row else self.lanes

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Sums with a factor and a divisor, maxima in rounds, and rows over their lanes."""
        number, natural = Encoding(5, fraction=2), Encoding(6, fraction=1, signed=False)
        mean = cls(number, natural, 2, False, 0, 3, 1, 7, 5, 1, 3, beats=12)
        return (
            mean,
            replace(
                mean, inner=2, factor_width=0, data_in_0=natural, data_out_0=number, sum_width=9
            ),
            replace(mean, maximum=True, inner=4, divisor=1, shift=0, factor_width=0),
            cls(number, replace(number, rounding=Rounding.FLOOR), 4, False, 10, 3, 1, 9, beats=12),
            cls(natural, natural, 4, True, 9, 6, 1, 7, beats=12),
        )
