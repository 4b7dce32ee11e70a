"""A device on a Zynq board, through PYNQ: streams by DMA, registers by AXI4-Lite."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .layout import DriverError, Octets, Port, TimedOutError
from .loading import load_image
from .registers import CONTROL, ERROR, FIRST_WRONG, HASH_HIGH, HASH_LOW, MAGIC, MAGIC_WORD, STATUS

# A channel of a DMA that never ends is looked at so often.
POLL_S = 0.0005


class PynqDevice:
    """A design with `--bus axi-stream` in an overlay.

    Args:
        overlay: a `pynq.Overlay`, or the path of a bitstream that becomes one.
        registers: name of the design in the overlay.
        dmas: names of the DMAs, one for each input and output in order; one that has both channels
            may serve an input and the output of the same place.
        timeout_s: seconds within which a transfer ends.
    """

    def __init__(
        self,
        overlay: object,
        registers: str = "top_axis_0",
        dmas: Sequence[str] = ("axi_dma_0",),
        timeout_s: float = 5.0,
    ) -> None:
        if isinstance(overlay, str):
            import pynq

            overlay = pynq.Overlay(overlay)
        import pynq

        self._allocate = pynq.allocate
        self._registers = getattr(overlay, registers)
        self._dmas = [getattr(overlay, name) for name in dmas]
        self._timeout_s = timeout_s

    def identify(self) -> int:
        """Return the hash of the design."""
        if (found := self._registers.read(MAGIC)) != MAGIC_WORD:
            raise DriverError(
                f"no design is at these registers: {found:#x} in place of {MAGIC_WORD:#x}"
            )
        high, low = self._registers.read(HASH_HIGH), self._registers.read(HASH_LOW)
        return int(high) << 32 | int(low)

    def reset(self) -> None:
        """Forget everything that is inside the design."""
        self._registers.write(CONTROL, 1)
        self._registers.write(ERROR, 0xFFFFFFFF)

    def load(self, image: bytes) -> None:
        """Give the design the weights of an image of `mase-hw pack-weights`.

        Raises:
            TimedOutError: when inferences do not come out of the design.
            DriverError: when the image is of another design, or damaged.
        """
        load_image(self._registers, image, self._timeout_s)

    def run(self, inputs: Sequence[Octets], outputs: Sequence[Port]) -> list[Octets]:
        """Return the packets of each output, see `Device.run`."""
        count = len(inputs[0])
        taken = [self._buffer(item.shape[1]) for item in inputs]
        made = [self._buffer(port.bytes) for port in outputs]
        results = [np.zeros((count, port.bytes), np.uint8) for port in outputs]
        try:
            for number in range(count):
                self._one(number, inputs, taken, made, results)
        finally:
            for buffer in (*taken, *made):
                buffer.freebuffer()
        return results

    def _buffer(self, size: int) -> Any:
        return self._allocate(shape=(size,), dtype=np.uint8)

    def _one(
        self,
        number: int,
        inputs: Sequence[Octets],
        taken: Sequence[Any],
        made: Sequence[Any],
        results: Sequence[Octets],
    ) -> None:
        """Move the packets of one inference."""
        for dma, buffer in zip(self._dmas, made, strict=False):
            dma.recvchannel.transfer(buffer)
        for dma, buffer, packets in zip(self._dmas, taken, inputs, strict=False):
            buffer[:] = packets[number]
            buffer.flush()
            dma.sendchannel.transfer(buffer)
        for dma, _ in zip(self._dmas, taken, strict=False):
            self._wait(dma.sendchannel)
        for dma, buffer, rows in zip(self._dmas, made, results, strict=False):
            self._wait(dma.recvchannel)
            buffer.invalidate()
            rows[number] = buffer
        if error := self._registers.read(ERROR):
            first = self._registers.read(FIRST_WRONG)
            self._registers.write(ERROR, 0xFFFFFFFF)
            raise DriverError(f"the design reports the errors {error:#x} from inference {first} on")

    def _wait(self, channel: Any) -> None:
        end = time.monotonic() + self._timeout_s
        while not channel.idle:
            if time.monotonic() > end:
                state = self._registers.read(STATUS)
                raise TimedOutError(
                    f"a transfer did not end within {self._timeout_s:g} s; STATUS is {state:#x}"
                )
            time.sleep(POLL_S)
