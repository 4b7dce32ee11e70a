"""Frames on a serial line, as `mase_frame_server.sv` answers them.

A request is `M H`, command, sequence, hash (8 bytes), length of the payload (4), payload, CRC-32
(4); an answer `m h`, status and the same. Numbers are little-endian, the checksum is over all
before it.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from .layout import DriverError

REQUEST, ANSWER = b"MH", b"mh"
IDENTIFY, RUN, RESET = 1, 2, 3
HEADER = struct.Struct("<2sBBQI")
SUM = struct.Struct("<I")
STATUS = {
    0: "well",
    1: "no frame begins so",
    2: "unknown command",
    3: "the device holds another design",
    4: "the payload has another length",
    5: "wrong checksum",
    6: "the line fell silent in a frame",
    7: "a byte without a stop bit",
    8: "bytes came before the answer was over",
    9: "the design gave no result, and was reset",
}
WELL, WRONG_HASH = 0, 3


class FrameError(DriverError):
    """An answer that is damaged, or is none."""


@dataclass(frozen=True)
class Answer:
    """An answer of a device."""

    status: int
    sequence: int
    hash: int
    payload: bytes


def request(command: int, sequence: int, design: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a request."""
    head = HEADER.pack(REQUEST, command, sequence, design, len(payload))
    return head + payload + SUM.pack(zlib.crc32(head + payload))


def answer_length(header: bytes) -> int:
    """Return how many bytes follow the header of an answer.

    Raises:
        FrameError: when it is none.
    """
    magic, *_, length = HEADER.unpack(header)
    if magic != ANSWER:
        raise FrameError(f"an answer begins with {magic!r}, not {ANSWER!r}")
    return int(length) + SUM.size


def read_answer(frame: bytes) -> Answer:
    """Return what the bytes of an answer say.

    Raises:
        FrameError: for a wrong checksum.
    """
    body, (told,) = frame[: -SUM.size], SUM.unpack(frame[-SUM.size :])
    if zlib.crc32(body) != told:
        raise FrameError("an answer came with a wrong checksum")
    _, status, sequence, design, _ = HEADER.unpack(body[: HEADER.size])
    return Answer(status, sequence, design, body[HEADER.size :])
