"""A memory behind an AXI4 read port, for cocotb: its image, its pace, and the rules of the port.

It accepts bursts, answers them in order, the first beat `latency_cycles` after the burst was
accepted and at most one beat every `cycles_per_beat`; pauses come on top.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocotb.triggers import RisingEdge
from stream import Log, Pauses

PAGE_BYTES = 4096
ADDRESS = ("araddr", "arid", "arlen", "arsize", "arburst")
INCREMENTING = 1
SLAVE_ERROR, DECODE_ERROR = 2, 3


def read_image(project: Path, entry: Mapping[str, Any]) -> bytes:
    """Return the image that `design.json` describes, which must have its size."""
    path: Path = project / entry["file"]
    image = path.read_bytes() if path.is_file() else None
    if image is None or len(image) != entry["bytes"]:
        state = "does not exist" if image is None else f"has {len(image)} bytes"
        raise FileNotFoundError(
            f"the image of the external memory, {path}, {state}; {entry['bytes']} bytes are "
            "needed: emit the project again"
        )
    return image


def memory_options(entry: Mapping[str, Any]) -> dict[str, int]:
    """Return how the memory behaves: as predicted, unless `MASE_HW_MEMORY` says otherwise."""
    port = entry["options"]
    beat_bytes = port["data_width"] // 8
    predicted = {
        "latency_cycles": port["latency_cycles"],
        "cycles_per_beat": beat_bytes // (port["bytes_per_cycle"] or beat_bytes),
        "error_beat": -1,
        "answered_beats": -1,
    }
    asked: dict[str, int] = json.loads(os.environ.get("MASE_HW_MEMORY", "{}"))
    return predicted | asked


@dataclass
class Burst:
    """A burst that was accepted, and how much of it was answered."""

    address: int
    number: int
    beats: int
    due: int
    done: int = 0


class AxiMemory:
    """The memory.

    Args:
        dut: the handle of the top.
        entry: `external_memory` of `design.json`.
        image: its bytes.
        options: `latency_cycles`, `cycles_per_beat`, `error_beat` and `answered_beats` (-1: none).
        pauses: when not to accept a burst, or not to offer a beat.
        now: returns the number of the current cycle.
    """

    def __init__(
        self,
        dut: Any,
        entry: Mapping[str, Any],
        image: bytes,
        options: Mapping[str, int],
        pauses: Pauses,
        now: Callable[[], int],
    ) -> None:
        self.name = entry["port"]
        self.log, self.asked, self.answered, self.waiting = Log(), 0, 0, False
        self.bursts: deque[Burst] = deque()
        self._port = {
            name: getattr(dut, f"{self.name}_{name}")
            for name in (
                *ADDRESS, "arvalid", "arready", "rdata", "rid", "rresp", "rlast", "rvalid",
                "rready", "error",
            )
        }  # fmt: skip
        self._edge, self._pauses, self._now = RisingEdge(dut.clk), pauses, now
        self._image, self._options = image, options
        self._bytes = entry["options"]["data_width"] // 8
        self._outstanding = entry["options"]["outstanding"]
        self._held: tuple[int, ...] = ()
        self._failed = False
        self._offered = False

    @property
    def beats(self) -> int:
        """Beats that the memory has sent."""
        return len(self.log.cycles)

    def start(self) -> None:
        """Drive the port for the first time."""
        self._port["rvalid"].value = 0
        self._port["arready"].value = 1

    def restart(self, *, is_reset: bool) -> None:
        """Go on behind a reset of the design: with bursts that it knows nothing of, or without."""
        if self.bursts and not is_reset:
            self._violate("the design was reset while bursts were on their way")
        self.waiting, self._failed = False, False
        if is_reset:
            self.answered += len(self.bursts)
            self.bursts.clear()
            self._offered = False
            self._port["rvalid"].value = 0

    async def run(self) -> None:
        """Answer for ever: drive in the first half of a cycle, look at its end."""
        accepts = True
        while True:
            self._offer()
            await self._edge
            self._watch(accepts)
            if self._pauses.stall:
                # Every other burst is accepted only after it was asked for.
                accepts = not self._pauses() and (self.waiting or self.asked % 2 == 0)
                self._port["arready"].value = int(accepts)

    def _offer(self) -> None:
        """Offer the beat that is due in the cycle that begins, if any."""
        if self._offered:
            return
        cycle, options = self._now() + 1, self._options
        due = bool(self.bursts) and self.beats != options["answered_beats"]
        if due:
            earliest = self.bursts[0].due
            if self.log.cycles:
                earliest = max(earliest, self.log.cycles[-1] + options["cycles_per_beat"])
            due = cycle >= earliest and not self._pauses()
        self._port["rvalid"].value = int(due)
        if not due:
            return
        burst = self.bursts[0]
        place = burst.address + burst.done * self._bytes
        beat = self._image[place : place + self._bytes]
        inside = len(beat) == self._bytes
        wrong = SLAVE_ERROR if self.beats == options["error_beat"] else 0
        self._port["rdata"].value = int.from_bytes(beat, "little") if inside else 0
        self._port["rid"].value = burst.number
        self._port["rresp"].value = wrong if inside else DECODE_ERROR
        self._port["rlast"].value = int(burst.done + 1 == burst.beats)
        self._offered = True

    def _watch(self, accepts: bool) -> None:
        """See what moves at the end of a cycle, and whether the rules are kept."""
        port, cycle = {name: handle.value for name, handle in self._port.items()}, self._now()
        if self._offered and port["rready"]:
            self.log.cycles.append(cycle)
            self._offered = False
            self.bursts[0].done += 1
            if self.bursts[0].done == self.bursts[0].beats:
                self.bursts.popleft()
                self.answered += 1
        if port["error"] and not self._failed:
            self._violate("m_axi_error: the memory answered with an error")
            self._failed = True
        asks = bool(port["arvalid"])
        if self.waiting and not asks:
            self._violate("arvalid fell before the burst was accepted")
        held = tuple(int(port[name]) for name in ADDRESS) if asks else ()
        if self.waiting and asks and held != self._held:
            self._violate("the burst changed before it was accepted")
        self.waiting, self._held = asks and not accepts, held
        if asks and accepts:
            self._accept(*held, cycle=cycle)

    def _accept(
        self, address: int, number: int, length: int, size: int, kind: int, *, cycle: int
    ) -> None:
        last = address + (length + 1) * self._bytes - 1
        if 1 << size != self._bytes or kind != INCREMENTING:
            self._violate("the burst is not incremental in whole beats")
        if address % self._bytes:
            self._violate("the burst does not start on a beat")
        if address // PAGE_BYTES != last // PAGE_BYTES:
            self._violate("the burst crosses 4 KiB")
        if last >= len(self._image):
            self._violate("the burst leaves the image")
        if self.asked - self.answered >= self._outstanding:
            self._violate("too many bursts are on their way")
        due = cycle + self._options["latency_cycles"]
        self.bursts.append(Burst(address, number, length + 1, due))
        self.asked += 1

    def _violate(self, rule: str) -> None:
        entry = {"port": self.name, "rule": rule, "cycle": self._now(), "beat": self.asked}
        self.log.violations.append(entry)
