"""A constant operand that is read from an external memory, round after round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mase_hw.cells._base import Cell, Port
from mase_hw.cells._motion import Motion, Steps


@dataclass(frozen=True)
class AxiSource(Cell):
    """A reader of one region, with its double buffer.

    When its words come, the model of the shared port says (`mase_hw.hardware.memory`).

    Attributes:
        port: the stream of words.
        number: its place among the sources of the port.
        words: words of the region.
        repeats: how often a round of words is sent each time that it was read.
        data_width: bits of a beat of the port.
        address_width: bits of an address.
        offset: first byte of the region.
        burst_beats: beats of a burst.
        buffer_beats: beats of both halves of the buffer.
    """

    port: Port
    number: int
    words: int
    repeats: int
    data_width: int
    address_width: int
    offset: int
    burst_beats: int
    buffer_beats: int

    @property
    def inputs(self) -> Mapping[str, Port]:
        """None: beats come through the shared port."""
        return {}

    @property
    def outputs(self) -> Mapping[str, Port]:
        """The words."""
        return {"data_out": replace(self.port, packed=True)}

    @property
    def parameters(self) -> Mapping[str, int]:
        """Those of the region."""
        given = super().parameters
        return {
            "WIDTH": self.port.width_bits,
            **{name: int(value) for name, value in given.items() if name != "NUMBER"},  # type: ignore[arg-type]
        }

    @property
    def signals(self) -> Mapping[str, str]:
        """Its lane of the shared port."""
        lane = f"[{self.number}]"
        requests = ("request_offset", "request_length", "request_valid", "request_ready")
        return {
            **{name: f"external_{name}{lane}" for name in requests},
            "beat": "external_beat",
            "beat_valid": f"external_beat_valid{lane}",
        }

    @property
    def motion(self) -> Motion:
        """As the memory delivers."""
        return Steps(0)

    @property
    def busy_cycles(self) -> int:
        """The port's, which all sources share."""
        return 0
