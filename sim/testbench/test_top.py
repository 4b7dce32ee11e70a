"""Streams vectors through the design, and compares every output with the integer reference.

Environment variables, all optional:

- `MASE_HW_PROJECT`: the project folder (default: the folder above this file).
- `MASE_HW_VECTORS`: inputs and expected outputs (default: `vectors.npz` beside this file).
- `MASE_HW_STALL`: probability that a port pauses in a cycle (default 0), over all: pauses come in
  phases, some longer than anything inside takes to drain.
- `MASE_HW_STALLED`: which ports pause: `inputs` (and the external memory), `outputs`, or `both`
  (default).
- `MASE_HW_SEED`: seeds the pauses (default 0).
- `MASE_HW_PROBES`: names of internal streams to record, separated by commas. They must be visible.
- `MASE_HW_MEMORY`: how the external memory, if any, behaves, as a JSON object (see `memory.py`);
  by default it has the latency and the bandwidth of the prediction.
- `MASE_HW_RESETS`: cycles of each run before a reset, separated by commas: everything begins again
  then (default: none).
- `MASE_HW_RESET_MEMORY`: 0 where a reset is not the external memory's (default 1).
- `MASE_HW_RESULTS`: where to write what was recorded (`.npz`).

`vectors.npz` holds, as rows of bytes (see `stream.py`): `input.NAME` for each input,
`expected.NAME` for each output, and `mask.NAME`, the bits of one inference that count (the lanes
of a tile outside the tensor do not).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import Event, RisingEdge, Timer
from cocotb.utils import get_sim_time
from memory import AxiMemory, memory_options, read_image
from stream import Bytes, Driver, Monitor, Pauses, StreamPort

PERIOD_NS = 10
RESET_CYCLES = 1
PROGRESS_SECONDS = 0.2


class Testbench:
    """The design with a driver on every input and a monitor on every output."""

    __test__ = False

    def __init__(
        self, dut: Any, design: dict[str, Any], vectors: Mapping[str, Bytes], image: bytes = b""
    ) -> None:
        self.dut, self.design = dut, design
        self.stall = float(os.environ.get("MASE_HW_STALL", "0"))
        stalled = os.environ.get("MASE_HW_STALLED", "both")
        input_stall = 0.0 if stalled == "outputs" else self.stall
        output_stall = 0.0 if stalled == "inputs" else self.stall
        self.seed = int(os.environ.get("MASE_HW_SEED", "0"))
        predicted = design["predicted"]
        self._longest = 8 * predicted["interval_cycles"] + predicted["latency_cycles"]
        self._resets = [
            int(item) for item in os.environ.get("MASE_HW_RESETS", "").split(",") if item
        ]
        self._reset_memory = os.environ.get("MASE_HW_RESET_MEMORY", "1") != "0"
        self._start = 0
        self._reported = time.monotonic()
        self._done = Event()
        self.hung = False
        self.drivers = [
            Driver(
                port,
                dut.clk,
                [row.tobytes() for row in vectors[f"input.{port.name}"]],
                Pauses(input_stall, self.seed, port.name, self._longest),
                self.now,
            )
            for port in (StreamPort(dut, entry) for entry in design["inputs"])
        ]
        self.monitors = [
            Monitor(
                port,
                dut.clk,
                Pauses(output_stall, self.seed, port.name, self._longest),
                self.now,
                self._moved,
            )
            for port in (StreamPort(dut, entry) for entry in design["outputs"])
        ]
        wanted = [name for name in os.environ.get("MASE_HW_PROBES", "").split(",") if name]
        self.probes = [
            Monitor(StreamPort(dut, entry), dut.clk, None, self.now, lambda: None)
            for entry in design["streams"]
            if entry["name"] in wanted
        ]
        self.memory: AxiMemory | None = None
        self._answering: Any = None
        entry = design["external_memory"]
        if entry is not None:
            pauses = Pauses(input_stall, self.seed, entry["port"], self._longest)
            self.memory = AxiMemory(dut, entry, image, memory_options(entry), pauses, self.now)
        first = design["inputs"][0]
        inferences = len(vectors[f"input.{first['name']}"]) // first["beats"]
        self._expected = [monitor.port.beats * inferences for monitor in self.monitors]

    def now(self) -> int:
        """Return the number of the current cycle, 0 being the first after reset."""
        return int(get_sim_time("ns") - self._start) // PERIOD_NS

    def _moved(self) -> None:
        if time.monotonic() - self._reported > PROGRESS_SECONDS:
            self._reported = time.monotonic()
            sys.stdout.write(f"progress {len(self.monitors[0].log.cycles)}\n")
            sys.stdout.flush()
        counts = [len(monitor.log.cycles) for monitor in self.monitors]
        if all(count >= wanted for count, wanted in zip(counts, self._expected, strict=True)):
            self._done.set()

    async def _watch(self, cycles: int) -> None:
        """End the run when no beat moves on any stream for so many cycles.

        Beats of the memory count as long as no more of them come than cycles.
        """
        before, read, fetched = -1, -1, 0
        while True:
            moved = sum(
                len(log.cycles)
                for item in (*self.drivers, *self.monitors)
                for log in (*item.before, item.log)
            )
            beats = self.memory.beats if self.memory else 0
            if moved != before:
                fetched = beats
            if moved == before and (beats == read or beats - fetched > cycles):
                self.hung = True
                self._done.set()
                return
            before, read = moved, beats
            await Timer(cycles * PERIOD_NS, "ns")

    async def run(self) -> None:
        """Reset the design, stream everything, and wait for surplus beats."""
        dut = self.dut
        dut.clk.value = 0
        dut.rst.value = 1
        for monitor in self.monitors:
            monitor.start()
        if self.memory:
            self.memory.start()
        Clock(dut.clk, PERIOD_NS, unit="ns").start(start_high=False)
        for _ in range(RESET_CYCLES):
            await RisingEdge(dut.clk)
        dut.rst.value = 0
        self._start = int(get_sim_time("ns")) + PERIOD_NS
        self._answering = self._answer()
        for cycles in self._resets:
            await self._until_reset(cycles)
        self._begin()
        interval = self.design["predicted"]["interval_cycles"]
        latency = self.design["predicted"]["latency_cycles"]
        usual = max(min(10 * interval + 2 * latency + 100, 50 * interval), interval + latency)
        if self.memory:
            usual += 100 * interval + 1000
        if self.stall:
            usual += 4 * self._longest
        cocotb.start_soon(self._watch(int(usual / (1.0 - self.stall))))
        await self._done.wait()
        if not self.hung:
            await Timer((2 * interval + 16) * PERIOD_NS, "ns")

    def _answer(self) -> Any:
        return cocotb.start_soon(self.memory.run()) if self.memory else None

    def _begin(self) -> list[Any]:
        """Start to drive and to watch every stream."""
        self._done.clear()
        items = (*self.monitors, *self.probes, *self.drivers)
        return [cocotb.start_soon(item.run()) for item in items]

    async def _until_reset(self, cycles: int) -> None:
        """Run for so many cycles, and reset the design for one more."""
        tasks = self._begin()
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
        for task in tasks:
            task.cancel()
        for item in (*self.monitors, *self.probes, *self.drivers):
            item.restart()
        self.dut.rst.value = 1
        if self.memory and self._reset_memory:
            self._answering.cancel()
            self.memory.restart(is_reset=True)
        await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        if self.memory and self._reset_memory:
            self._answering = self._answer()
        elif self.memory:
            self.memory.restart(is_reset=False)

    def save(self, path: Path, seconds: float) -> None:
        """Write everything that was recorded."""
        arrays: dict[str, Any] = {}
        state, violations = {}, []
        for item in (*self.drivers, *self.monitors, *self.probes):
            port, log = item.port, item.log
            logs = [*item.before, log]
            beats = b"".join(beat for each in logs for beat in each.beats)
            cycles = [cycle for each in logs for cycle in each.cycles]
            lengths = [len(each.cycles) for each in item.before]
            arrays[f"beats.{port.name}"] = np.frombuffer(beats, np.uint8).reshape(-1, port.bytes)
            arrays[f"cycles.{port.name}"] = np.array(cycles, np.int64)
            arrays[f"marks.{port.name}"] = np.cumsum(lengths, dtype=np.int64)
            state[port.name] = [bool(port.valid.value), bool(port.ready.value)]
            violations += log.violations
        memory = self.memory
        violations += memory.log.violations if memory else []
        summary = {
            "memory": memory and [memory.asked, memory.beats, len(memory.bursts), memory.waiting],
            "cycles": self.now(),
            "seconds": seconds,
            "hung": self.hung,
            "state": state,
            "violations": violations,
        }
        arrays["summary"] = np.array(json.dumps(summary))
        np.savez(path, **arrays)


def compare(port: StreamPort, got: Sequence[bytes], expected: Bytes, mask: Bytes) -> str | None:
    """First difference, or None."""
    rows = np.frombuffer(b"".join(got), np.uint8).reshape(-1, port.bytes)
    count = min(len(rows), len(expected))
    masks = np.tile(mask, (-(-count // len(mask)), 1))[:count]
    wrong = np.argwhere((rows[:count] ^ expected[:count]) & masks)
    if len(wrong):
        row, byte = (int(item) for item in wrong[0])
        bits = int((rows[row, byte] ^ expected[row, byte]) & masks[row, byte])
        signal, lane = port.lane_of(byte, (bits & -bits).bit_length() - 1)
        return (
            f"{signal}: beat {row % port.beats} of inference {row // port.beats}, lane {lane}: "
            f"expected beat 0x{expected[row, ::-1].tobytes().hex()}, "
            f"got 0x{rows[row, ::-1].tobytes().hex()}"
        )
    if len(rows) != len(expected):
        return f"{port.name}: {len(rows)} beats came, expected {len(expected)}"
    return None


@cocotb.test()
async def outputs_equal_reference(dut: object) -> None:
    """Every output equals the reference on every bit, and every stream keeps the rules."""
    here = Path(__file__).resolve().parent
    project = Path(os.environ.get("MASE_HW_PROJECT", here.parent))
    design = json.loads((project / "design.json").read_text())
    vectors = dict(np.load(os.environ.get("MASE_HW_VECTORS", here / "vectors.npz")))
    entry = design["external_memory"]
    bench = Testbench(dut, design, vectors, read_image(project, entry) if entry else b"")
    start = time.perf_counter()
    await bench.run()
    seconds = time.perf_counter() - start
    if "MASE_HW_RESULTS" in os.environ:
        bench.save(Path(os.environ["MASE_HW_RESULTS"]), seconds)
    problems = [
        f"{item['port']}: {item['rule']} (beat {item['beat']}, cycle {item['cycle']})"
        for checked in (*bench.monitors, *bench.probes, *([bench.memory] if bench.memory else []))
        for item in checked.log.violations
    ]
    for monitor in bench.monitors:
        name = monitor.port.name
        difference = compare(
            monitor.port, monitor.log.beats, vectors[f"expected.{name}"], vectors[f"mask.{name}"]
        )
        problems += [difference] if difference else []
    if bench.hung:
        problems.append(f"the design hangs: no beat moved any more at cycle {bench.now()}")
        if bench.memory and (bench.memory.bursts or bench.memory.waiting):
            problems.append(f"the memory behind {bench.memory.name} does not answer")
    assert not problems, "\n".join([*problems, f"seed {bench.seed}, stall {bench.stall}"])
