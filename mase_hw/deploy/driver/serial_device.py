"""A device at a serial port."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from . import frames
from .layout import DriverError, Octets, Port, TimedOutError, WrongDesignError

# No answer is longer.
MOST_BYTES = 1 << 24


class Line(Protocol):
    """What pyserial offers, and the simulated line too."""

    def write(self, data: bytes) -> object:
        """Send bytes over the line."""

    def read(self, size: int) -> bytes:
        """Return that many bytes, or fewer when no more come in time."""

    def reset_input_buffer(self) -> None:
        """Forget what came and was not read."""


class SerialDevice:
    """Sends one inference a frame, and asks again where a frame was damaged on its way.

    Args:
        line: name of a port, such as `/dev/ttyUSB0`, which pyserial opens; or a line that is open.
        baud: bits a second, for a port by name.
        timeout_s: seconds within which an answer comes.
        tries: how often a frame is sent.
    """

    def __init__(
        self, line: str | Line, baud: int = 115_200, timeout_s: float = 2.0, tries: int = 3
    ) -> None:
        self._line = _opened(line, baud, timeout_s) if isinstance(line, str) else line
        self._timeout_s, self._tries, self._sequence = timeout_s, tries, 0
        self._hash: int | None = None

    def identify(self) -> int:
        """Return the hash of the design that the device holds."""
        self._hash = None
        self._hash = self._ask(frames.IDENTIFY).hash
        return self._hash

    def connect(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        """A frame has the packets of any streams."""

    def reset(self) -> None:
        """Forget everything that is inside the design."""
        self._ask(frames.RESET)

    def run(self, inputs: Sequence[Octets], outputs: Sequence[Port]) -> list[Octets]:
        """Return the packets of each output, see `Device.run`."""
        sizes = [port.bytes for port in outputs]
        cuts, rows = np.cumsum(sizes)[:-1], []
        for packets in zip(*inputs, strict=True):
            answer = self._ask(frames.RUN, b"".join(item.tobytes() for item in packets))
            if len(answer.payload) != sum(sizes):
                raise frames.FrameError(
                    f"a result has {len(answer.payload)} bytes in place of {sum(sizes)}"
                )
            rows.append(np.frombuffer(answer.payload, np.uint8))
        whole = np.stack(rows) if rows else np.zeros((0, sum(sizes)), np.uint8)
        return np.split(whole, cuts, axis=1)

    def _ask(self, command: int, payload: bytes = b"") -> frames.Answer:
        """Send a frame until it is answered well, as often as is allowed."""
        failure: DriverError | None = None
        for _ in range(self._tries):
            self._sequence = (self._sequence + 1) % 256
            self._line.reset_input_buffer()
            self._line.write(frames.request(command, self._sequence, self._hash or 0, payload))
            try:
                answer = self._answer()
            except (TimedOutError, frames.FrameError) as error:
                failure = error
                continue
            known = self._hash in (None, answer.hash)
            if answer.status == frames.WELL and answer.sequence == self._sequence and known:
                return answer
            if answer.status == frames.WRONG_HASH or not known:
                raise WrongDesignError(
                    f"the device holds the design {answer.hash:016x}, not {self._hash or 0:016x}"
                )
            text = frames.STATUS.get(answer.status, "unknown")
            failure = DriverError(f"the device answered {answer.status}: {text}")
        assert failure is not None
        raise failure

    def _answer(self) -> frames.Answer:
        header = self._read(frames.HEADER.size)
        length = frames.answer_length(header)
        if length > MOST_BYTES:
            raise frames.FrameError(f"an answer says that it has {length:,} bytes")
        return frames.read_answer(header + self._read(length))

    def _read(self, size: int) -> bytes:
        end, data = time.monotonic() + self._timeout_s, b""
        while len(data) < size:
            data += self._line.read(size - len(data))
            if len(data) < size and time.monotonic() > end:
                raise TimedOutError(
                    f"{len(data)} of {size} bytes of an answer came within {self._timeout_s:g} s"
                )
        return data


def _opened(name: str, baud: int, timeout_s: float) -> Line:
    import serial

    line: Line = serial.Serial(name, baud, timeout=timeout_s)
    return line
