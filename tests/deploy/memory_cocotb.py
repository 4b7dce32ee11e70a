"""Runs inferences whose inputs and results lie in a memory, inside the simulator."""

import json
import random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from tests.deploy.axis_cocotb import PROJECT, _pauses, vectors
from tests.deploy.faults import ANSWERS, answer_with
from tests.deploy.protocol import ChannelChecker

import sys  # isort: skip

sys.path.insert(0, str(PROJECT))
from driver.layout import Port

CONTROL, STATUS, ERROR, INPUT, OUTPUT, COUNT, INTERRUPT = 0x14, 0x18, 0x1C, 0x40, 0x48, 0x50, 0x54
ADDRESS = ("addr", "len", "size", "burst")


class Bench:
    """A design, its registers and its memory."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        design = json.loads((PROJECT / "design.json").read_text())
        self.source, self.result = (
            Port(design[end][0], design["bus"][end][0]) for end in ("inputs", "outputs")
        )
        cocotb.start_soon(Clock(dut.aclk, 10, "ns").start())
        if design["bus"]["own_clock"]:
            cocotb.start_soon(Clock(dut.core_clk, 7300, "ps").start())
        active = {"reset": dut.aresetn, "reset_active_level": False}
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.aclk, **active)
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.aclk, size=1 << 16, **active)
        self.checkers = [
            ChannelChecker(dut, dut.aclk, f"m_axi_{name}", payload, dut.aresetn)
            for name, payload in (("ar", ADDRESS), ("aw", ADDRESS), ("w", ("data", "strb", "last")))
        ]

    async def start(self, stall: float) -> None:
        self.dut.aresetn.value = 0
        await Timer(300, "ns")
        await RisingEdge(self.dut.aclk)
        self.dut.aresetn.value = 1
        for checker in self.checkers:
            cocotb.start_soon(checker.run())
        read, write = self.ram.read_if, self.ram.write_if
        channels = (read.ar_channel, read.r_channel, write.aw_channel, write.w_channel)
        for number, channel in enumerate((*channels, write.b_channel)):
            channel.set_pause_generator(_pauses(stall, random.Random(number)))

    async def read(self, address: int) -> int:
        return int.from_bytes((await self.lite.read(address, 4)).data, "little")

    async def write(self, address: int, value: int) -> None:
        await self.lite.write(address, value.to_bytes(4, "little"))

    async def run(self, codes: np.ndarray, source: int, result: int) -> np.ndarray:
        """Return the results of inferences that are put into the memory."""
        step, out = (port.words * port.bus_bytes for port in (self.source, self.result))
        for number, packet in enumerate(self.source.pack(codes)):
            self.ram.write(source + number * step, packet.tobytes())
        self.ram.write(result, b"\xee" * (len(codes) * out + 8))
        await self.write(INPUT, source)
        await self.write(OUTPUT, result)
        await self.write(COUNT, len(codes))
        await self.write(CONTROL, 4)
        while not int(self.dut.interrupt.value):
            await RisingEdge(self.dut.aclk)
        assert await self.read(STATUS) & 8
        assert self.ram.read(result + len(codes) * out, 8) == b"\xee" * 8
        rows = [
            self.ram.read(result + number * out, self.result.bytes) for number in range(len(codes))
        ]
        return self.result.unpack(
            np.frombuffer(b"".join(rows), np.uint8).reshape(-1, self.result.bytes)
        )

    async def refused(self, codes: np.ndarray, source: int) -> None:
        """Check that an address inside a word moves nothing, and is told."""
        self.ram.write(0x8000, b"\xee" * 64)
        await self.write(INPUT, source)
        await self.write(OUTPUT, 0x8000)
        await self.write(COUNT, len(codes))
        await self.write(CONTROL, 4)
        while not int(self.dut.interrupt.value):
            await RisingEdge(self.dut.aclk)
        assert await self.read(ERROR) == 1 << 25
        assert self.ram.read(0x8000, 64) == b"\xee" * 64
        await self.write(ERROR, 1 << 25)


@cocotb.test()
async def results_in_memory(dut: Any) -> None:
    """Results are equal wherever they lie; an address inside a word is refused."""
    bench = await _equal_everywhere(dut, 0.0)
    (inputs,), _ = vectors()
    assert (await with_timeout(bench.run(inputs[:0], 0, 0x8000), 200, "us")).shape[0] == 0
    await with_timeout(bench.refused(inputs, 0x1002), 200, "us")


@cocotb.test()
async def results_of_a_slow_memory(dut: Any) -> None:
    """Results are equal while every channel of the memory pauses."""
    await _equal_everywhere(dut, 0.4)


async def _equal_everywhere(dut: Any, stall: float) -> Bench:
    bench = Bench(dut)
    await bench.start(stall)
    await bench.write(INTERRUPT, 1)
    (inputs,), (expected,) = vectors()
    for source, result in ((0, 0x8000), (0x0FF8, 0x4FF0), (0x1238, 0x7FF8)):
        found = await with_timeout(bench.run(inputs, source, result), 1, "ms")
        np.testing.assert_array_equal(found, expected)
    assert await bench.read(ERROR) == 0
    assert [item for checker in bench.checkers for item in checker.violations] == []
    return bench


@cocotb.test()
async def errors_of_the_memory(dut: Any) -> None:
    """An answer with an error is told by its bit, all ends, and what comes behind it is right."""
    bench = Bench(dut)
    await bench.start(0.2)
    await bench.write(INTERRUPT, 1)
    (inputs,), (expected,) = vectors()
    read, write = bench.ram.read_if.r_channel, bench.ram.write_if.b_channel
    for channel, name in ((read, "rresp"), (write, "bresp")):
        for code in ANSWERS:
            for place in (0, 2):
                answer_with(channel, name, code, place)
                await with_timeout(bench.run(inputs, 0, 0x8000), 1, "ms")
                assert await bench.read(ERROR) == 1 << 25, (name, code, place)
                await bench.write(ERROR, 1 << 25)
                found = await with_timeout(bench.run(inputs, 0, 0x8000), 1, "ms")
                np.testing.assert_array_equal(found, expected)
                assert await bench.read(ERROR) == 0, (name, code, place)
    assert [item for checker in bench.checkers for item in checker.violations] == []
