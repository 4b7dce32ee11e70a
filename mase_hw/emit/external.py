"""The instances and the image of constants that lie in an external memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mase_hw.emit.design import Instance
from mase_hw.hardware.memory import ExternalMemory, Place, Region

SOURCE_MODULE = "mase_axi_source"
PORT_MODULE = "mase_axi_read_port"
ADDRESS_SIGNALS = (
    "araddr", "arid", "arlen", "arsize", "arburst", "arcache", "arprot", "arvalid", "arready",
)  # fmt: skip
DATA_SIGNALS = ("rdata", "rid", "rresp", "rlast", "rvalid", "rready")


def source_instance(
    memory: ExternalMemory, region: Region, name: str, payload: str, stream: str
) -> Instance:
    """Return the source of a region: instance `name`, which drives the nets of `stream`."""
    number, port = memory.regions.index(region), memory.port
    return Instance(
        name,
        region.node,
        SOURCE_MODULE,
        {
            "WIDTH": str(region.width_bits),
            "WORDS": str(region.words),
            "REPEATS": str(region.repeats),
            "DATA_WIDTH": str(port.data_width),
            "ADDRESS_WIDTH": str(port.address_width),
            "OFFSET": str(region.offset),
            "BURST_BEATS": str(region.burst_beats),
            "BUFFER_BEATS": str(region.buffer_beats),
        },
        {
            "clk": "clk",
            "rst": "rst",
            "request_offset": f"external_request_offset[{number}]",
            "request_length": f"external_request_length[{number}]",
            "request_valid": f"external_request_valid[{number}]",
            "request_ready": f"external_request_ready[{number}]",
            "beat": "external_beat",
            "beat_valid": f"external_beat_valid[{number}]",
            "data_out": payload,
            "data_out_valid": f"{stream}_valid",
            "data_out_ready": f"{stream}_ready",
        },
    )


def port_instance(memory: ExternalMemory) -> Instance:
    """Return the instance that shares the AXI port."""
    port = memory.port
    internal = ("request_offset", "request_length", "request_valid", "request_ready", "beat")
    outside = [f"m_axi_{name}" for name in (*ADDRESS_SIGNALS, *DATA_SIGNALS, "error")]
    return Instance(
        "external_memory_inst",
        "external_memory",
        PORT_MODULE,
        {
            "SOURCES": str(len(memory.regions)),
            "ADDRESS_WIDTH": str(port.address_width),
            "DATA_WIDTH": str(port.data_width),
            "ID_WIDTH": str(memory.id_width),
            "OUTSTANDING": str(port.outstanding),
            "BASE_ADDRESS": "M_AXI_BASE_ADDRESS",
        },
        {
            "clk": "clk",
            "rst": "rst",
            **{name: f"external_{name}" for name in (*internal, "beat_valid")},
            **{name: name for name in outside},
        },
    )


def pack_image(memory: ExternalMemory, words: Mapping[Place, Sequence[int]]) -> bytes:
    """Return the image: each region's words without gaps, low bits first, filled up with zeros."""
    image = np.zeros(memory.bytes, np.uint8)
    for region in memory.regions:
        size = -(-region.width_bits // 8)
        octets = b"".join(
            word.to_bytes(size, "little") for word in words[region.node, region.operand]
        )
        rows = np.frombuffer(octets, np.uint8).reshape(-1, size)
        bits = np.unpackbits(rows, axis=1, bitorder="little")[:, : region.width_bits]
        packed = np.packbits(bits.reshape(-1), bitorder="little")
        image[region.offset : region.offset + len(packed)] = packed
    return image.tobytes()
