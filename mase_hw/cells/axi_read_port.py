"""One AXI4 read port that the sources of a design share by arbitration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.cells._base import Cell, Port, Value
from mase_hw.cells._components import Components, Counter, Gates, Mux, Offset, Register
from mase_hw.cells._motion import Motion, Steps


@dataclass(frozen=True)
class AxiReadPort(Cell):
    """The arbiter, and the bursts on their way.

    Attributes:
        sources: number of sources.
        address_width: bits of an address.
        data_width: bits of a beat.
        id_width: bits of an ID.
        outstanding: bursts on their way at a time.
    """

    sources: int
    address_width: int
    data_width: int
    id_width: int
    outstanding: int

    ADDRESS = (
        "araddr", "arid", "arlen", "arsize", "arburst", "arcache", "arprot", "arvalid", "arready",
    )  # fmt: skip
    DATA = ("rdata", "rid", "rresp", "rlast", "rvalid", "rready")

    @property
    def inputs(self) -> Mapping[str, Port]:
        return {}

    @property
    def outputs(self) -> Mapping[str, Port]:
        return {}

    @property
    def parameters(self) -> Mapping[str, Value]:
        """The fields, and where the image begins, which the top is given."""
        return {**super().parameters, "BASE_ADDRESS": "M_AXI_BASE_ADDRESS"}

    @property
    def signals(self) -> Mapping[str, str]:
        """The port of the top, and the lanes of the sources."""
        lanes = ("request_offset", "request_length", "request_valid", "request_ready", "beat")
        outside = [f"m_axi_{name}" for name in (*self.ADDRESS, *self.DATA, "error")]
        return {
            **{name: f"external_{name}" for name in (*lanes, "beat_valid")},
            **{name: name for name in outside},
        }

    @property
    def components(self) -> Components:
        """Whose turn it is, the address of a burst, and how many are on their way."""
        address, count = self.address_width, self.outstanding.bit_length()
        request = address + 8 + self.id_width
        return Components.of(
            Register(request + self.sources + 2),
            Counter(count),
            (Gates(4), self.sources),
            Mux(self.sources, request),
            Offset(address, 0),
            Gates(4),
        )

    @property
    def motion(self) -> Motion:
        return Steps(0)
