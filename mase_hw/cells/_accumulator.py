"""What cells share that sum products with weights which stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mase_hw.cells._base import SCALE, Cell, Port, Value, fact
from mase_hw.formats import Encoding, StreamField


@dataclass(frozen=True)
class Accumulator(Cell):
    """`data_out_0 = cast(bias + the sum over beats and lanes of data_in_0 * weight)`.

    Attributes:
        data_in_0: encoding of the data.
        weight: of the weights, which come as [results, elements] beside the data.
        bias: of the biases, a tile once per result tile; None for none.
        data_out_0: of the results.
        terms: beats of a sum.
        rows: rows of a beat.
        in_lanes: elements of a row.
        out_lanes: results of a row.
        beats: beats of data in an inference.
    """

    data_in_0: Encoding
    weight: Encoding
    bias: Encoding | None
    data_out_0: Encoding
    terms: int
    rows: int
    in_lanes: int
    out_lanes: int
    beats: int = fact()

    @cached_property
    def inputs(self) -> Mapping[str, Port]:
        """Data and weights beat for beat, biases once for each result."""
        weight = Port.elements(self.weight, self.in_lanes, self.beats, rows=self.out_lanes)
        bias = self.bias or self.weight
        return {
            "data_in_0": self._data_port(),
            "weight": weight,
            "bias": Port.elements(bias, self.out_lanes, self._results if self.bias else 0),
        }

    def _data_port(self) -> Port:
        return Port.elements(self.data_in_0, self.in_lanes, self.beats, rows=self.rows)

    @property
    def _results(self) -> int:
        return self.beats // self.terms

    @cached_property
    def outputs(self) -> Mapping[str, Port]:
        """A tile of results for each row tile."""
        out, scales = self.data_out_0, self._scales
        port = Port.elements(out, self.out_lanes, self._results, rows=self.rows, scales=scales)
        return {"data_out_0": port}

    @property
    def _scales(self) -> bool:
        """Whether the module has a signal of shared scales of results."""
        return True

    @property
    def parameters(self) -> Mapping[str, Value]:
        """The fields, and whether there is a bias."""
        return {**super().parameters, "HAS_BIAS": self.bias is not None}

    @property
    def multipliers(self) -> int:
        """One for each pair of an element and a result."""
        return self.rows * self.in_lanes * self.out_lanes

    @property
    def _levels(self) -> int:
        """Levels of the tree of adders."""
        return (self.in_lanes - 1).bit_length()


def marked(port: Port) -> Port:
    """Return a port of elements with a bit above each."""
    (elements,) = port.fields
    return Port((StreamField("", elements.lanes, elements.width_bits + 1),), port.beats)


def with_scale(port: Port) -> Port:
    """Return an unconnected port of blocks, whose scale is a signal too."""
    return Port(port.fields, port.beats, (SCALE,) if len(port.fields) == 1 else ())
