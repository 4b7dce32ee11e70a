"""A device on a Zynq board, through PYNQ: streams by DMA, registers by AXI4-Lite."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from .control import POLL_S, Control
from .layout import DriverError, Octets, Port, TimedOutError
from .registers import BATCH, STATUS

# Inferences of a packet, as the register counts them.
MOST_INFERENCES = (1 << 8) - 1


class PynqDevice(Control):
    """A design with `--bus axi-stream` in an overlay.

    Args:
        overlay: a `pynq.Overlay`, or the path of a bitstream that becomes one.
        registers: name of the design in the overlay.
        dmas: names of the DMAs, one for each input and output in order; one that has both channels
            may serve an input and the output of the same place.
        timeout_s: seconds within which a transfer ends.
        most_bytes: that a DMA moves in one transfer.

    Raises:
        DriverError: for fewer DMAs than the design has streams.
    """

    def __init__(
        self,
        overlay: object,
        registers: str = "top_axis_0",
        dmas: Sequence[str] = ("axi_dma_0",),
        timeout_s: float = 5.0,
        most_bytes: int = (1 << 14) - 1,
    ) -> None:
        import pynq

        if isinstance(overlay, str):
            overlay = pynq.Overlay(overlay)
        super().__init__(getattr(overlay, registers), timeout_s)
        self.identify()
        self._allocate, self._most_bytes, self._names = pynq.allocate, most_bytes, dmas
        self._dmas = [getattr(overlay, name) for name in dmas]
        self._senders: list[Any] = []
        self._receivers: list[Any] = []
        if all(ports := self.ports()):
            self._serve(*ports)

    def connect(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        """Refuse a design with more streams than DMAs."""
        self._serve(len(inputs), len(outputs))

    def _serve(self, inputs: int, outputs: int) -> None:
        self._senders = self._channels("inputs", inputs, "sendchannel")
        self._receivers = self._channels("outputs", outputs, "recvchannel")

    def _channels(self, what: str, count: int, name: str) -> list[Any]:
        channels = [getattr(dma, name, None) for dma in self._dmas[:count]]
        served = [item for item in channels if item is not None]
        if len(served) != count:
            raise DriverError(
                f"the design has {count} {what}, and {', '.join(self._names) or 'no DMA'} serves "
                f"{len(served)}: name a DMA for each in dmas"
            )
        return served

    def run(self, inputs: Sequence[Octets], outputs: Sequence[Port]) -> list[Octets]:
        """Return the packets of each output, see `Device.run`; many of them in one transfer."""
        count = len(inputs[0])
        widths = [port.words * port.bus_bytes for port in outputs]
        results = [np.zeros((count, width), np.uint8) for width in widths]
        largest = max(*widths, *(item.shape[1] for item in inputs))
        most = max(1, min(self._most_bytes // largest, MOST_INFERENCES))
        for start in range(0, count, most):
            batch = slice(start, min(start + most, count))
            self._move([item[batch] for item in inputs], [item[batch] for item in results])
        return results

    def _move(self, inputs: Sequence[Octets], results: Sequence[Octets]) -> None:
        """Move one batch: a transfer for each stream."""
        self.registers.write(BATCH, len(inputs[0]))
        with ExitStack() as stack:

            def buffer(shape: tuple[int, ...]) -> Any:
                made = self._allocate(shape=shape, dtype=np.uint8)
                stack.callback(made.freebuffer)
                return made

            received = [buffer(item.shape) for item in results]
            for channel, made in zip(self._receivers, received, strict=True):
                channel.transfer(made)
            for channel, packets in zip(self._senders, inputs, strict=True):
                made = buffer(packets.shape)
                made[:] = packets
                made.flush()
                channel.transfer(made)
            for channel in (*self._senders, *self._receivers):
                self._ended(channel)
            for made, rows in zip(received, results, strict=True):
                made.invalidate()
                rows[:] = made
        self.check()

    def _ended(self, channel: Any) -> None:
        end = time.monotonic() + self.timeout_s
        while not channel.idle:
            if time.monotonic() > end:
                status = self.registers.read(STATUS)
                raise TimedOutError(
                    f"a transfer did not end within {self.timeout_s:g} s; STATUS is {status:#x}"
                )
            time.sleep(POLL_S)
