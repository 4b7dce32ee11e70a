"""A serial line: one inference a frame."""

from __future__ import annotations

from mase_hw.deploy.buses._base import BusKind
from mase_hw.emit.design import DesignSummary
from mase_hw.errors import ConfigError


class Uart(BusKind):
    """Two pins, and frames with a checksum (`mase_frame_server`)."""

    name = "uart"
    module = "top_uart"
    template = "uart.sv.j2"
    widths = (8,)
    width_bits = 8
    has_clock = False

    @classmethod
    def check_design(cls, summary: DesignSummary) -> None:
        if summary.loads:
            raise ConfigError(
                "weights are loaded through the registers of --bus axi-stream or axi-memory"
            )
        if summary.external is not None:
            raise ConfigError(
                "weights outside the chip need a memory, and a serial line has none: "
                "take --bus axi-stream"
            )
