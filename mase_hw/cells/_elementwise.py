"""What the cells share that compute a result element by element."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

from mase_hw.cells._base import Cell, Port, fact
from mase_hw.cells._encoder import cast_stages, encoder
from mase_hw.cells._motion import Motion, Steps
from mase_hw.formats import Encoding


@dataclass(frozen=True)
class Elementwise(Cell):
    """A cell whose operands come beat for beat; every encoding but the result's is an operand's.

    Attributes:
        data_in_0: encoding of the first operand.
        data_out_0: encoding of the result.
        lanes: elements of a beat.
        beats: beats of an inference.
        latency: cycles from a beat to its result.
    """

    latency = 4
    data_in_0: Encoding
    data_out_0: Encoding
    lanes: int
    _: KW_ONLY
    beats: int = fact()

    def _port(self, encoding: Encoding) -> Port:
        return Port.elements(encoding, self.lanes, self.beats)

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {
            name.lower(): self._port(value)
            for name, value in self.parameters.items()
            if isinstance(value, Encoding) and name != "DATA_OUT_0"
        }

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {"data_out_0": self._port(self.data_out_0)}

    @property
    def motion(self) -> Motion:
        return Steps(self.latency)


@dataclass(frozen=True)
class Encoded(Elementwise):
    """A cell whose exact results `mase_encode` rounds.

    `lanes` are those of a row.

    Attributes:
        rows: rows of a beat.
        size: elements of a row of the tensor.
    """

    rows: int
    size: int

    def _port(self, encoding: Encoding) -> Port:
        return Port.elements(encoding, self.lanes, self.beats, rows=self.rows, scales=True)

    @property
    def latencies(self) -> Mapping[str, int]:
        return {"CAST_STAGES": cast_stages(self.data_out_0)}

    @property
    @abstractmethod
    def stages(self) -> int:
        """Cycles from a beat to its exact results."""

    @property
    def motion(self) -> Motion:
        return encoder(self.stages, self.data_out_0, self.lanes, self.size)
