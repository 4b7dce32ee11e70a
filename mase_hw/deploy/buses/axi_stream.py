"""AXI4-Stream ports, one a tensor, and registers on AXI4-Lite."""

from __future__ import annotations

from mase_hw.deploy.buses._base import BusKind
from mase_hw.emit.design import DesignSummary


class AxiStream(BusKind):
    """A packet of each input goes in, a packet of each output comes out."""

    name = "axi-stream"
    module = "top_axis"
    template = "axi_stream.sv.j2"
    registers = "mase_control"
    address_bits = 6
    has_streams = True

    @classmethod
    def check_design(cls, summary: DesignSummary) -> None:
        """Every design has streams."""
