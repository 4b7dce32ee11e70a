"""Loading weights through the registers of a design."""

from __future__ import annotations

import struct
import time
from typing import Any

from .layout import DriverError, TimedOutError
from .registers import CONTROL, ERROR, STATUS, WEIGHTS

LOAD = 2
LOADING, WHOLE = 2, 4
BAD_WEIGHTS = 1 << 24


def load_image(registers: Any, image: bytes, timeout_s: float) -> None:
    """Write an image into a design.

    Args:
        registers: has `read(address)` and `write(address, value)`.
        image: what `mase-hw pack-weights` wrote.
        timeout_s: seconds within which all inferences must be out of the design.

    Raises:
        TimedOutError: when they are not.
        DriverError: when the image is of another design, or damaged.
    """
    if len(image) % 4 or len(image) < 16:
        raise DriverError(f"an image of weights has whole words; this one has {len(image)} bytes")
    registers.write(ERROR, BAD_WEIGHTS)
    registers.write(CONTROL, LOAD)
    end = time.monotonic() + timeout_s
    while not registers.read(STATUS) & LOADING:
        if time.monotonic() > end:
            raise TimedOutError(f"inferences were still in the design after {timeout_s:g} s")
    for (word,) in struct.iter_unpack("<I", image):
        registers.write(WEIGHTS, word)
    status, error = registers.read(STATUS), registers.read(ERROR)
    if error & BAD_WEIGHTS or status & LOADING or not status & WHOLE:
        whole = "are as before" if status & WHOLE else "are damaged: load an image that is whole"
        raise DriverError(f"the image was refused; the weights of the design {whole}")
