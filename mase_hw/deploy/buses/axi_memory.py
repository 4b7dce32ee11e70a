"""A port to a memory on AXI4, and registers on AXI4-Lite that start batches."""

from __future__ import annotations

from mase_hw.deploy.buses._base import WIDTHS, BusKind
from mase_hw.emit.design import DesignSummary
from mase_hw.errors import ConfigError


class AxiMemory(BusKind):
    """A start reads inferences from one address and writes their results to another."""

    name = "axi-memory"
    module = "top_memory"
    template = "axi_memory.sv.j2"
    registers = "mase_memory_control"
    address_bits = 7
    # Bursts are of 16 words, and lie in 4 KiB.
    widths = WIDTHS[2:]
    width_bits = 32
    in_memory = True

    @classmethod
    def check_design(cls, summary: DesignSummary) -> None:
        if len(summary.inputs) > 1 or len(summary.outputs) > 1:
            raise ConfigError(
                f"--bus axi-memory is for designs with one input and one result; this one has "
                f"{len(summary.inputs)} and {len(summary.outputs)}: take --bus axi-stream"
            )
        if summary.external is not None:
            raise ConfigError(
                "weights outside the chip have a port of their own: take --bus axi-stream"
            )
