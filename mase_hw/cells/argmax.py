"""The index of the largest element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mase_hw.cells._base import Cell, Port, fact
from mase_hw.cells._components import Adder, Compare, Components, Counter, Gates, Mux, Register
from mase_hw.cells._motion import Fold, Motion
from mase_hw.cells._pipeline import counter, round_pipeline, round_store
from mase_hw.formats import Encoding


@dataclass(frozen=True)
class Argmax(Cell):
    """The place of the largest of several beats, lane by lane or over a row.

    Attributes:
        data_in_0: of the elements, whose codes must be in the order of their values.
        lanes: elements of a beat.
        index_width: bits of an index.
        row: elements of a row over whose lanes it looks too; 0 where lanes stay apart.
        terms: beats of a result.
        inner: beats of a round.
        beats: beats of one inference.
    """

    data_in_0: Encoding
    lanes: int
    index_width: int
    row: int
    terms: int
    inner: int
    beats: int = fact(1)

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {"data_in_0": Port.elements(self.data_in_0, self.lanes, self.beats)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        index = Encoding(self.index_width, signed=False)
        lanes = 1 if self.row else self.lanes
        return {"data_out_0": Port.elements(index, lanes, self.beats // self.terms)}

    @property
    def motion(self) -> Motion:
        """A result follows its last beat, whose lanes a tree compares."""
        levels = (self.lanes - 1).bit_length() if self.row else 0
        return Fold(self.terms, 5 + levels, self.inner)

    @property
    def components(self) -> Components:
        """A tree of comparisons, the best until now, and a pipeline of rounds."""
        width, index = self.data_in_0.width, self.index_width
        elements = self.lanes if self.row else 1
        lanes_out = 1 if self.row else self.lanes
        levels = (elements - 1).bit_length()
        lane = Components.of(Register(2 * width * elements))
        if self.row and self.row - (self.terms - 1) * elements < elements:
            tail = elements - (self.row - (self.terms - 1) * elements)
            lane += Components.of(Gates(tail * width), Register(1))
        inputs, place = elements, 0
        while inputs > 1:
            pairs, single = divmod(inputs, 2)
            place += 1
            best = width + place
            lane += Components.of((Compare(width), pairs), (Mux(2, best), pairs))
            lane += Components.of(Register(best * pairs), Register((best - 1) * single))
            inputs = pairs + single
        best = width + index
        lane += Components.of(Compare(width), Mux(2, best))
        if levels:
            lane += Components.of(Adder(index))
        rounds = round_pipeline(self.terms, 2 + levels, 1, lanes_out * index, self.inner) + counter(
            self.inner
        )
        if self.terms > 1:
            rounds += Components.of(Counter(max(index - levels, 1)))
        return lane * lanes_out + rounds + round_store(lanes_out * best, self.inner)

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Over beats, in rounds, and over the lanes of rows that do not fill their last beat."""
        number, natural = Encoding(5), Encoding(4, signed=False)
        return (
            cls(number, 2, 3, 0, 3, 1, 12),
            cls(natural, 2, 3, 0, 3, 2, 12),
            cls(number, 4, 4, 10, 3, 1, 12),
            cls(natural, 1, 3, 0, 2, 3, 12),
        )
