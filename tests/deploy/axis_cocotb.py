"""Drives a design behind AXI4-Stream ports with cocotbext-axi, inside the simulator."""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer, with_timeout
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from tests.deploy.protocol import ChannelChecker

PROJECT = Path(os.environ["BUS_PROJECT"])
sys.path.insert(0, str(PROJECT))
from driver.layout import Port  # noqa: E402

STREAM = ("data", "keep", "last")
# Inferences whose interval is measured.
FULL_RATE = 200
REGISTERS = {
    "MAGIC": 0, "VERSION": 4, "HASH_LOW": 8, "HASH_HIGH": 0xC, "PORTS": 0x10, "CONTROL": 0x14,
    "STATUS": 0x18, "ERROR": 0x1C, "CYCLES": 0x20, "INFERENCES_IN": 0x24, "INFERENCES_OUT": 0x28,
    "FIRST_WRONG": 0x2C, "INDEX": 0x30, "DESCRIPTION": 0x34,
}  # fmt: skip


class Bench:
    """A design with a driver at every port."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        design = json.loads((PROJECT / "design.json").read_text())
        self.bus = design["bus"]
        self.ports = {
            end: [Port(*pair) for pair in zip(design[end], self.bus[end], strict=True)]
            for end in ("inputs", "outputs")
        }
        cocotb.start_soon(Clock(dut.aclk, 10, "ns").start())
        if self.bus["own_clock"]:
            period = int(os.environ.get("CORE_PERIOD_PS", "7300"))
            cocotb.start_soon(Clock(dut.core_clk, period, "ps").start())
        active = {"reset": dut.aresetn, "reset_active_level": False}
        self.sources = [
            AxiStreamSource(AxiStreamBus.from_prefix(dut, f"s_axis_{n}"), dut.aclk, **active)
            for n in range(len(self.ports["inputs"]))
        ]
        self.sinks = [
            AxiStreamSink(AxiStreamBus.from_prefix(dut, f"m_axis_{n}"), dut.aclk, **active)
            for n in range(len(self.ports["outputs"]))
        ]
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.aclk, **active)
        self.checkers = [
            ChannelChecker(dut, dut.aclk, f"{kind}_axis_{n}_t", STREAM, dut.aresetn)
            for kind, count in (("s", len(self.sources)), ("m", len(self.sinks)))
            for n in range(count)
        ]
        for name, payload in (("b", ("resp",)), ("r", ("resp", "data"))):
            prefix = f"s_axil_{name}"
            self.checkers.append(ChannelChecker(dut, dut.aclk, prefix, payload, dut.aresetn))

    async def start(self) -> None:
        self.dut.aresetn.value = 0
        await Timer(300, "ns")
        await RisingEdge(self.dut.aclk)
        self.dut.aresetn.value = 1
        for checker in self.checkers:
            cocotb.start_soon(checker.run())
        await Timer(500, "ns")

    def pause(self, probability: float, seed: int) -> None:
        for number, item in enumerate((*self.sources, *self.sinks)):
            item.set_pause_generator(_pauses(probability, random.Random(f"{seed} {number}")))

    async def read(self, name: str) -> int:
        data = await self.lite.read(REGISTERS[name], 4)
        return int.from_bytes(data.data, "little")

    async def write(self, name: str, value: int) -> None:
        await self.lite.write(REGISTERS[name], value.to_bytes(4, "little"))

    async def send(self, packets: list[np.ndarray]) -> None:
        for source, rows in zip(self.sources, packets, strict=True):
            for row in rows:
                await source.send(AxiStreamFrame(row.tobytes()))

    async def receive(self, count: int, limit_us: int = 20_000) -> list[np.ndarray]:
        found = []
        for port, sink in zip(self.ports["outputs"], self.sinks, strict=True):
            rows = []
            for _ in range(count):
                frame = await with_timeout(sink.recv(), limit_us, "us")
                row = np.frombuffer(bytes(frame.tdata), np.uint8)
                assert len(row) == port.bytes, (len(row), port.bytes)
                rows.append(row)
            found.append(np.stack(rows))
        return found

    def check_rules(self) -> None:
        assert [item for checker in self.checkers for item in checker.violations] == []


def _pauses(probability: float, generator: random.Random) -> Any:
    while True:
        chance = generator.choice((probability, probability, 0.0, 0.95))
        for _ in range(generator.choice((1, 4, 30))):
            yield generator.random() < chance


def vectors() -> tuple[list[np.ndarray], list[np.ndarray]]:
    with np.load(os.environ["BUS_VECTORS"]) as arrays:
        inputs = [arrays[name] for name in sorted(arrays) if name.startswith("in")]
        return inputs, [arrays[name] for name in sorted(arrays) if name.startswith("out")]


async def _equal(bench: Bench, inputs: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Send all inferences back to back and compare every code of every result."""
    packets = [port.pack(item) for port, item in zip(bench.ports["inputs"], inputs, strict=True)]
    task = cocotb.start_soon(bench.receive(len(inputs[0])))
    await bench.send(packets)
    found = await task
    bench.check_rules()
    for port, rows, codes in zip(bench.ports["outputs"], found, expected, strict=True):
        wanted = codes.reshape(-1, *port.item_shape)
        np.testing.assert_array_equal(port.unpack(rows), wanted)


@cocotb.test()
async def random_pauses(dut: Any) -> None:
    """All inferences are equal while every port pauses at random; no rule is broken."""
    bench = Bench(dut)
    await bench.start()
    inputs, expected = vectors()
    bench.pause(float(os.environ.get("BUS_STALL", "0.3")), 1)
    await _equal(bench, inputs, expected)
    assert await bench.read("INFERENCES_IN") == len(inputs[0])
    assert await bench.read("INFERENCES_OUT") == len(inputs[0])
    assert await bench.read("STATUS") & 1 == 0
    assert await bench.read("ERROR") == 0
    assert all(checker.moves for checker in bench.checkers if "axis" in checker.prefix)


@cocotb.test()
async def identity(dut: Any) -> None:
    """The registers tell what design.json says; others are answered with an error."""
    bench = Bench(dut)
    await bench.start()
    assert await bench.read("MAGIC") == 0x4D415345
    found = await bench.read("HASH_HIGH") << 32 | await bench.read("HASH_LOW")
    assert f"{found:016x}" == bench.bus["hash"]
    ports = await bench.read("PORTS")
    assert (ports & 255, ports >> 8 & 255) == (len(bench.sources), len(bench.sinks))
    for number, port in enumerate((*bench.ports["inputs"], *bench.ports["outputs"])):
        words = []
        for index in range(8):
            await bench.write("INDEX", 8 * number + index)
            words.append(await bench.read("DESCRIPTION"))
        assert words[0] == port.bytes
        assert words[5] == len(port.shape)
        assert words[6] == port.shape[-1]
    assert (await bench.lite.read(0x3C, 4)).resp != 0
    assert (await bench.lite.write(0x3C, b"1234")).resp != 0
    assert (await bench.lite.write(0x00, b"1234")).resp != 0
    cycles = await bench.read("CYCLES")
    assert await bench.read("CYCLES") > cycles
    bench.check_rules()


@cocotb.test()
async def wrong_packets(dut: Any) -> None:
    """Short and long packets and wrong TKEEP are reported; those behind them are right."""
    bench = Bench(dut)
    await bench.start()
    inputs, expected = vectors()
    packets = [port.pack(item) for port, item in zip(bench.ports["inputs"], inputs, strict=True)]
    word = bench.ports["inputs"][0].bus_bytes
    right = packets[0][1]
    faults = {
        "long": (np.concatenate([right, np.resize(right, word)]), 0x000100),
        "very long": (np.tile(right, 5), 0x000100),
    }
    if len(right) > word:
        faults["short"] = (right[:-word], 0x000001)
    if word > 1:
        faults["empty byte"] = (right, 0x010000)
    for name, (wrong, bit) in faults.items():
        await bench.write("CONTROL", 1)
        await Timer(400, "ns")
        sent = [list(rows[:3]) for rows in packets]
        sent[0][1] = wrong
        for number, (source, rows) in enumerate(zip(bench.sources, sent, strict=True)):
            for place, row in enumerate(rows):
                frame = AxiStreamFrame(row.tobytes())
                if name == "empty byte" and (number, place) == (0, 1):
                    frame.tkeep = [1] * len(row)
                    frame.tkeep[0] = 0
                await source.send(frame)
        found = await bench.receive(3)
        error = await bench.read("ERROR")
        assert error & 0xFFFF00 & ~bit & ~0x010000 == 0, (name, hex(error))
        assert error & bit, (name, hex(error))
        assert await bench.read("FIRST_WRONG") == 1, name
        assert int(dut.error.value) == 1
        for port, rows, codes in zip(bench.ports["outputs"], found, expected, strict=True):
            wanted = codes.reshape(-1, *port.item_shape)
            for place in (0, 2):
                np.testing.assert_array_equal(port.unpack(rows)[place], wanted[place])
        await bench.write("ERROR", 0xFFFFFFFF)
        assert await bench.read("ERROR") == 0
    bench.check_rules()


@cocotb.test()
async def soft_reset(dut: Any) -> None:
    """A soft reset forgets what is inside; what comes behind it is right."""
    bench = Bench(dut)
    await bench.start()
    inputs, expected = vectors()
    packets = [port.pack(item) for port, item in zip(bench.ports["inputs"], inputs, strict=True)]
    await bench.send([rows[:1] for rows in packets])
    await bench.receive(1)
    await bench.write("CONTROL", 1)
    await Timer(400, "ns")
    assert await bench.read("INFERENCES_IN") == 0
    await _equal(bench, [item[:4] for item in inputs], [item[:4] for item in expected])


@cocotb.test()
async def full_rate(dut: Any) -> None:
    """Without pauses an inference takes the interval that was predicted for the bare top."""
    bench = Bench(dut)
    await bench.start()
    inputs = [item[:FULL_RATE] for item in vectors()[0]]
    packets = [port.pack(item) for port, item in zip(bench.ports["inputs"], inputs, strict=True)]
    ends: list[int] = []

    async def watch() -> None:
        cycle = 0
        while True:
            await RisingEdge(dut.aclk)
            cycle += 1
            if int(dut.m_axis_0_tvalid.value) and int(dut.m_axis_0_tlast.value):
                ends.append(cycle)

    cocotb.start_soon(watch())
    await bench.send(packets)
    await bench.receive(len(inputs[0]))
    half = len(ends) // 2
    interval = (ends[-1] - ends[half]) / (len(ends) - 1 - half)
    Path(os.environ["BUS_REPORT"]).write_text(json.dumps({"interval": interval}))
