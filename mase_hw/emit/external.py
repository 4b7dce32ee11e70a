"""The image of constants that lie in an external memory."""

from __future__ import annotations

from collections.abc import MutableMapping

import numpy as np
import numpy.typing as npt

from mase_hw.timing.memory import ExternalMemory, Place

Octets = npt.NDArray[np.uint8]


def pack_image(memory: ExternalMemory, words: MutableMapping[Place, Octets]) -> bytes:
    """Return the image: each region's words without gaps, low bits first, filled up with zeros.

    Args:
        memory: the port and its regions.
        words: for each (node, operand), its words `[words, octets]`, the lowest octet first; they
            are taken out.
    """
    image = np.zeros(memory.bytes, np.uint8)
    for region in memory.regions:
        rows = words.pop((region.node, region.operand))
        packed = rows.reshape(-1)
        if region.width_bits % 8:
            bits = np.unpackbits(rows, axis=1, bitorder="little")[:, : region.width_bits]
            packed = np.packbits(bits.reshape(-1), bitorder="little")
        image[region.offset : region.offset + len(packed)] = packed
    return image.tobytes()
