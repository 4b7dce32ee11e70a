"""A device whose inferences and results lie in a memory (`--bus axi-memory`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from .control import Control, Registers
from .layout import DriverError, Octets, Port


class MemoryDevice(Control):
    """Runs all inferences of a call as one batch.

    Args:
        registers: of the design, such as `overlay.top_memory_0` under PYNQ.
        allocate: makes a buffer that the design reaches, such as `pynq.allocate`: an array with
            `device_address`, `flush()`, `invalidate()` and `freebuffer()`.
        timeout_s: seconds within which a batch ends.
    """

    def __init__(
        self, registers: Registers, allocate: Callable[..., Any], timeout_s: float = 5.0
    ) -> None:
        super().__init__(registers, timeout_s)
        self._allocate = allocate

    def connect(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        """Refuse a design with several inputs or outputs."""
        if len(inputs) != 1 or len(outputs) != 1:
            raise DriverError(
                f"a memory holds one input and one output; the design has {len(inputs)} and "
                f"{len(outputs)}: take the device of its bus"
            )

    def run(self, inputs: Sequence[Octets], outputs: Sequence[Port]) -> list[Octets]:
        """Return the packets of each output, see `Device.run`."""
        (packets,), (port,) = inputs, outputs
        if not len(packets):
            return [np.zeros((0, port.words * port.bus_bytes), np.uint8)]
        with ExitStack() as stack:
            source, result = (
                self._allocate(shape=shape, dtype=np.uint8)
                for shape in (packets.shape, (len(packets), port.words * port.bus_bytes))
            )
            stack.callback(source.freebuffer)
            stack.callback(result.freebuffer)
            source[:] = packets
            source.flush()
            self.start(source.device_address, result.device_address, len(packets))
            self.finish()
            result.invalidate()
            return [np.array(result)]
