"""Exact sums times a multiplier for each result, rounded once: integers with a real scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Port, fact
from mase_hw.cells._components import Components, Offset, Product, Register
from mase_hw.cells._encoder import QUEUE, cast_stages, scalar_cast
from mase_hw.cells._motion import Motion, Steps
from mase_hw.cells._pipeline import join, stream_pipeline
from mase_hw.formats import Encoding, Kind


@dataclass(frozen=True)
class Requantize(Cell):
    """`data_out_0 = cast(data_in_0 * multiplier * 2**-shift)`.

    Attributes:
        data_in_0: encoding of the sums.
        multiplier: of the words, a shift above a multiplier.
        data_out_0: of the results.
        rows: rows of a beat.
        lanes: results of a row.
        multiplier_width: bits of a multiplier; 0 where scales are powers of two.
        beats: beats of an inference.
    """

    data_in_0: Encoding
    multiplier: Encoding
    data_out_0: Encoding
    rows: int
    lanes: int
    multiplier_width: int
    beats: int = fact()

    @property
    def inputs(self) -> Mapping[str, Port]:
        """Sums, and a word for each of them."""
        return {
            "data_in_0": Port.elements(self.data_in_0, self.lanes, self.beats, rows=self.rows),
            "multiplier": Port.elements(self.multiplier, self.lanes, self.beats),
        }

    @property
    def outputs(self) -> Mapping[str, Port]:
        port = Port.elements(self.data_out_0, self.lanes, self.beats, rows=self.rows)
        return {"data_out_0": port}

    @property
    def latencies(self) -> Mapping[str, int]:
        return {"CAST_STAGES": cast_stages(self.data_out_0)}

    @property
    def motion(self) -> Motion:
        return Steps(2 + cast_stages(self.data_out_0) + QUEUE)

    @property
    def components(self) -> Components:
        """For each row and lane a product and its cast; a pipeline."""
        data, out = self.data_in_0, self.data_out_0
        factor = self.multiplier_width
        shift = self.multiplier.width - factor
        product = data.width + (factor + 1 if factor else 0)
        lane = Components.of(Register(shift + factor + shift))
        cell = Components.of(
            Register(data.width),
            (Product(data.width, factor + 1), int(factor > 0)),
            Offset(shift + 1, shift),
        )
        cell += scalar_cast(product, replace(out, fraction=0), shift + 1, stages=1)
        stages = 2 + cast_stages(out)
        pipeline = stream_pipeline(self.rows * self.lanes * out.width, stages)
        return lane * self.lanes + cell * (self.rows * self.lanes) + join(2) + pipeline

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """Integers around a zero point, with multipliers and without."""
        words, shifts = Encoding(16, signed=False), Encoding(6, signed=False)
        out = Encoding(6, Kind.OFFSET, zero_point=3)
        return (
            cls(Encoding(12), words, out, 1, 2, 10, 9),
            cls(Encoding(12), shifts, out, 2, 1, 0, 9),
        )
