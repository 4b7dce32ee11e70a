"""The image of constants that lie in an external memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mase_hw.hardware.memory import ExternalMemory, Place


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
