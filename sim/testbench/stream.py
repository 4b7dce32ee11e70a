"""Driver and monitor of a valid/ready stream with a packed payload, for cocotb.

A stream `NAME` is the signals `NAME` (payload), `NAME_valid` and `NAME_ready`. A beat moves at a
rising edge of the clock at which valid and ready are both high; once valid is high, valid and the
payload hold until the beat moves. A beat is a row of bytes: the payload signals one after another,
each little-endian in 1, 2, 4, 8 or a multiple of 4 bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from cocotb.triggers import RisingEdge

Bytes = npt.NDArray[np.uint8]


def storage_bytes(width_bits: int) -> int:
    """Return the bytes in which a signal of `width_bits` is kept."""
    for size in (1, 2, 4, 8):
        if width_bits <= 8 * size:
            return size
    return 4 * -(-width_bits // 32)


@dataclass(frozen=True)
class Field:
    """One payload signal: `lanes` values of `width_bits`, lane 0 in the low bits."""

    suffix: str
    lanes: int
    width_bits: int

    @property
    def bytes(self) -> int:
        """Bytes of the signal in a beat."""
        return storage_bytes(self.lanes * self.width_bits)


class StreamPort:
    """The signals of one stream.

    Args:
        dut: the handle of the top.
        entry: the stream's entry in `design.json`.
    """

    def __init__(self, dut: object, entry: dict[str, Any]) -> None:
        self.name: str = entry["name"]
        self.beats: int = entry["beats"]
        self.fields = [Field(**item) for item in entry["fields"]]
        self.signals = [getattr(dut, self.name + item.suffix) for item in self.fields]
        self.valid = getattr(dut, f"{self.name}_valid")
        self.ready = getattr(dut, f"{self.name}_ready")
        self.bytes = sum(item.bytes for item in self.fields)

    def read(self) -> bytes:
        """Return the payload, one access for each signal."""
        return b"".join(
            int(signal.value).to_bytes(item.bytes, "little")
            for signal, item in zip(self.signals, self.fields, strict=True)
        )

    def write(self, beat: bytes) -> None:
        """Set the payload, one access for each signal."""
        start = 0
        for signal, item in zip(self.signals, self.fields, strict=True):
            signal.value = int.from_bytes(beat[start : start + item.bytes], "little")
            start += item.bytes

    def lane_of(self, byte: int, bit: int) -> tuple[str, int]:
        """Return (signal name, lane) of a bit of a beat."""
        for item in self.fields:
            if byte < item.bytes:
                return self.name + item.suffix, (8 * byte + bit) // item.width_bits
            byte -= item.bytes
        raise IndexError(byte)


class Pauses:
    """Draws pauses, from a seed and a name: true with the probability `stall`, over all.

    They come in phases: half of them with that probability in each cycle, the others all pauses or
    none. Lengths are spread over magnitudes, up to `longest` cycles.
    """

    def __init__(self, stall: float, seed: int, name: str, longest: int = 1) -> None:
        self.stall = stall
        self._random = random.Random(f"{seed} {name}")
        self._longest, self._left, self._chance = longest, 0, stall

    def __call__(self) -> bool:
        """Draw whether to pause in this cycle."""
        if not self.stall:
            return False
        if not self._left:
            self._left = int(self._longest ** self._random.random())
            kind = self._random.random()
            others = 1.0 if kind < 0.5 + 0.5 * self.stall else 0.0
            self._chance = self.stall if kind < 0.5 else others
        self._left -= 1
        return self._random.random() < self._chance


@dataclass
class Log:
    """What happened on one stream: the beats that moved, and the cycle of each."""

    beats: list[bytes] = field(default_factory=list)
    cycles: list[int] = field(default_factory=list)
    violations: list[dict[str, object]] = field(default_factory=list)

    def violate(self, port: str, rule: str, cycle: int) -> None:
        """Keep a broken rule."""
        entry = {"port": port, "rule": rule, "cycle": cycle, "beat": len(self.cycles)}
        self.violations.append(entry)


class Driver:
    """Sends beats into an input, with random pauses.

    Args:
        port: the input.
        clock: the clock's signal.
        beats: the beats, one row of bytes each.
        pauses: when not to offer a beat.
        now: returns the number of the current cycle.
    """

    def __init__(
        self,
        port: StreamPort,
        clock: Any,
        beats: Sequence[bytes],
        pauses: Pauses,
        now: Callable[[], int],
    ) -> None:
        self.port, self.log = port, Log()
        self._edge, self._ready = RisingEdge(clock), RisingEdge(port.ready)
        self._beats, self._pauses, self._now = beats, pauses, now
        self.before: list[Log] = []
        port.valid.value = 0

    def restart(self) -> None:
        """Begin again at a reset."""
        self.port.valid.value = 0
        self.before.append(self.log)
        self.log = Log()

    async def run(self) -> None:
        """Send every beat, with the pauses that were asked for."""
        port, edge = self.port, self._edge
        offering = False
        for beat in self._beats:
            while self._pauses():
                if offering:
                    port.valid.value = 0
                    offering = False
                await edge
            port.write(beat)
            if not offering:
                port.valid.value = 1
                offering = True
            await edge
            while not port.ready.value:
                await self._ready
                await edge
            self.log.cycles.append(self._now())
        port.valid.value = 0


class Monitor:
    """Receives the beats of an output, with random pauses, and checks that it holds its beats.

    Args:
        port: the output, or a stream inside the design.
        clock: the clock's signal.
        pauses: when not to be ready; None for a stream inside, which is only watched.
        now: returns the number of the current cycle.
        moved: called after each beat.
    """

    def __init__(
        self,
        port: StreamPort,
        clock: Any,
        pauses: Pauses | None,
        now: Callable[[], int],
        moved: Callable[[], None],
    ) -> None:
        self.port, self.log = port, Log()
        self._edge, self._valid = RisingEdge(clock), RisingEdge(port.valid)
        self._pauses, self._now, self._moved = pauses, now, moved
        self._accepts = True
        self.before: list[Log] = []

    def restart(self) -> None:
        """Begin again at a reset; what was broken before is kept."""
        self.before.append(self.log)
        self.log = Log(violations=self.log.violations)

    def _next_ready(self) -> None:
        if self._pauses is None or not self._pauses.stall:
            return
        accepts = not self._pauses()
        if accepts != self._accepts:
            self.port.ready.value = int(accepts)
            self._accepts = accepts

    def start(self) -> None:
        """Set ready for the first time."""
        if self._pauses is not None:
            self.port.ready.value = 1

    async def run(self) -> None:
        """Receive beats until the simulation ends."""
        port, log = self.port, self.log
        held: bytes | None = None
        while True:
            await self._edge
            if not port.valid.value:
                if held is not None:
                    log.violate(port.name, "valid fell before the beat moved", self._now())
                    held = None
                self._next_ready()
                await self._valid
                continue
            beat = port.read()
            if held is not None and beat != held:
                log.violate(port.name, "data changed before the beat moved", self._now())
            if self._accepts if self._pauses is not None else port.ready.value:
                log.beats.append(beat)
                log.cycles.append(self._now())
                held = None
                self._moved()
            else:
                held = beat
            self._next_ready()
