"""Runs inferences whose inputs and results lie in a memory, inside the simulator."""

import ctypes
import json
import os
import random
import sys
from types import SimpleNamespace
from typing import Any, ClassVar

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, RisingEdge, Timer, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from tests.deploy.axis_cocotb import LOST, PROJECT, _pauses, moments, vectors
from tests.deploy.faults import ANSWERS, answer_with
from tests.deploy.protocol import ChannelChecker

sys.path.insert(0, str(PROJECT))
from driver import DriverError, Model
from driver import registers as at
from driver.layout import Port
from driver.memory_device import MemoryDevice

ADDRESS = ("addr", "len", "size", "burst")
BAD_MEMORY, BAD_START = 1 << 25, 1 << 27
SIZE, RESULT = 1 << 16, 0x8000
# Inferences of a batch that is disturbed.
FEW = 3
READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)


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
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.aclk, size=SIZE, **active)
        self.checkers = [
            ChannelChecker(dut, dut.aclk, f"m_axi_{name}", payload, dut.aresetn)
            for name, payload in (("ar", ADDRESS), ("aw", ADDRESS), ("w", ("data", "strb", "last")))
        ]

    async def start(self) -> None:
        self.dut.aresetn.value = 0
        await Timer(300, "ns")
        await RisingEdge(self.dut.aclk)
        self.dut.aresetn.value = 1
        for checker in self.checkers:
            cocotb.start_soon(checker.run())
        await self.write(at.INTERRUPT, 1)

    def pause(self, probability: float) -> None:
        """Let every channel of the memory pause."""
        read, write = self.ram.read_if, self.ram.write_if
        channels = (read.ar_channel, read.r_channel, write.aw_channel, write.w_channel)
        for number, channel in enumerate((*channels, write.b_channel)):
            channel.set_pause_generator(_pauses(probability, random.Random(number)))

    async def read(self, address: int) -> int:
        return int.from_bytes((await self.lite.read(address, 4)).data, "little")

    async def write(self, address: int, value: int) -> None:
        await self.lite.write(address, value.to_bytes(4, "little"))

    async def put(self, codes: np.ndarray, source: int, result: int) -> None:
        """Put inferences into the memory, and say where."""
        step, out = (port.words * port.bus_bytes for port in (self.source, self.result))
        for number, packet in enumerate(self.source.pack(codes)):
            self.ram.write(source + number * step, packet.tobytes())
        self.ram.write(result - 8, b"\xee" * (len(codes) * out + 16))
        await self.write(at.INPUT_LOW, source)
        await self.write(at.OUTPUT_LOW, result)
        await self.write(at.COUNT, len(codes))

    async def ended(self, cycles: int = 20_000) -> None:
        """Wait until STATUS is not busy; the memory has no word on its way then."""
        for _ in range(cycles // 10):
            if not await self.read(at.STATUS) & at.STATUS_BUSY:
                return
        raise AssertionError("the design hangs")

    async def taken(self, count: int, result: int) -> np.ndarray:
        """Return the results of a batch, which must be whole and nothing else."""
        out = self.result.words * self.result.bus_bytes
        for edge in (result - 8, result + count * out):
            assert self.ram.read(edge, 8) == b"\xee" * 8
        spare = out - self.result.bytes
        for number in range(count):
            end = result + number * out + self.result.bytes
            assert self.ram.read(end, spare) == b"\xee" * spare, "bytes that do not count"
        rows = [self.ram.read(result + number * out, self.result.bytes) for number in range(count)]
        whole = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, self.result.bytes)
        return self.result.unpack(whole)

    async def run(self, codes: np.ndarray, source: int = 0, result: int = RESULT) -> np.ndarray:
        await self.put(codes, source, result)
        await self.write(at.CONTROL, at.CONTROL_START)
        if not int(self.dut.interrupt.value):
            await RisingEdge(self.dut.interrupt)
        assert await self.read(at.STATUS) & 9 == at.STATUS_DONE
        return await self.taken(len(codes), result)

    async def exact(self, inputs: np.ndarray, expected: np.ndarray) -> None:
        """Check that a batch is right, and nothing is reported."""
        found = await with_timeout(self.run(inputs), 1, "ms")
        np.testing.assert_array_equal(found, expected)
        assert await self.read(at.ERROR) == 0
        assert [item for checker in self.checkers for item in checker.violations] == []


async def started(dut: Any) -> tuple[Bench, np.ndarray, np.ndarray]:
    bench = Bench(dut)
    await bench.start()
    (inputs,), (expected,) = vectors()
    return bench, inputs, expected


@cocotb.test()
async def results_in_memory(dut: Any) -> None:
    """Results are equal wherever they lie, of any memory; an address inside a word is refused."""
    bench, inputs, expected = await started(dut)
    for stall in (0.0, 0.4):
        bench.pause(stall)
        for source, result in ((0, RESULT), (0x0FF8, 0x4FF0), (0x1238, 0x7FF8)):
            found = await with_timeout(bench.run(inputs, source, result), 1, "ms")
            np.testing.assert_array_equal(found, expected)
        assert await bench.read(at.ERROR) == 0
    assert (await with_timeout(bench.run(inputs[:0]), 200, "us")).shape[0] == 0
    for source, result in ((0x1002, RESULT), (0, RESULT + 1)):
        await bench.put(inputs, source, result)
        before = bench.ram.read(RESULT, 64)
        await bench.write(at.CONTROL, at.CONTROL_START)
        await bench.ended()
        assert await bench.read(at.STATUS) & at.STATUS_DONE
        assert await bench.read(at.ERROR) == BAD_MEMORY
        assert bench.ram.read(RESULT, 64) == before
        await bench.write(at.ERROR, BAD_MEMORY)
    await bench.exact(inputs, expected)


@cocotb.test()
async def errors_of_the_memory(dut: Any) -> None:
    """Each answer that is an error is told with its inference, again after each clearing."""
    bench, inputs, expected = await started(dut)
    inputs, expected = inputs[:FEW], expected[:FEW]
    bench.pause(0.2)
    read, write = bench.ram.read_if.r_channel, bench.ram.write_if.b_channel

    def bursts(port: Port, at_byte: int) -> list[int]:
        """Return the packet of each burst: at most 16 words, none across a multiple of them."""
        found = []
        for packet in range(len(inputs)):
            left, word = port.words, (at_byte // port.bus_bytes) + packet * port.words
            while left:
                taken = min(left, 16 - word % 16)
                found.append(packet)
                left, word = left - taken, word + taken
        return found

    words = [packet for packet in range(len(inputs)) for _ in range(bench.source.words)]
    answers = bursts(bench.result, RESULT)
    for code in ANSWERS:
        for name, channel, field, packets in (
            ("read", read, "rresp", words),
            ("write", write, "bresp", answers),
        ):
            for place in range(len(packets)):
                before = await bench.read(at.INFERENCES_OUT)
                answer_with(channel, field, code, place)
                await with_timeout(bench.run(inputs), 1, "ms")
                assert await bench.read(at.ERROR) == BAD_MEMORY, (name, code, place)
                first = await bench.read(at.FIRST_WRONG) - before
                assert first == packets[place], (name, code, place, first, packets[place])
                await bench.write(at.ERROR, BAD_MEMORY)
    answer_with(read, "rresp", ANSWERS[0], len(words) - 1)
    answer_with(write, "bresp", ANSWERS[0], 1)
    before = await bench.read(at.INFERENCES_OUT)
    await with_timeout(bench.run(inputs), 1, "ms")
    assert await bench.read(at.FIRST_WRONG) - before == answers[1]
    await bench.write(at.ERROR, BAD_MEMORY)
    await bench.exact(inputs, expected)


@cocotb.test()
async def resets_and_starts_at_any_time(dut: Any) -> None:
    """A reset ends a batch, a start changes nothing, whenever it comes; both are told."""
    bench, inputs, expected = await started(dut)
    inputs, expected = inputs[:FEW], expected[:FEW]
    for stall in (0.0, 0.5):
        bench.pause(stall)
        for what in (at.CONTROL_RESET, at.CONTROL_START):
            for cycle in moments(10 * await length(bench, inputs) // 8):
                await bench.put(inputs, 0, RESULT)
                await bench.write(at.CONTROL, at.CONTROL_START)
                await ClockCycles(dut.aclk, cycle + 1)
                was_busy = not int(dut.interrupt.value)
                if what == at.CONTROL_START:
                    # Nothing of the batch that runs is taken from the registers.
                    await bench.write(at.COUNT, 1)
                    await bench.write(at.OUTPUT_LOW, 0)
                await bench.write(at.CONTROL, what)
                await bench.ended()
                is_done = await bench.read(at.STATUS) & at.STATUS_DONE
                error = await bench.read(at.ERROR)
                await bench.write(at.ERROR, 0xFFFFFFFF)
                where = (stall, what, cycle)
                if what == at.CONTROL_RESET:
                    assert not is_done, where
                    assert error in ((LOST,) if was_busy and cycle < 5 else (0, LOST)), where
                    if not error:
                        np.testing.assert_array_equal(await bench.taken(FEW, RESULT), expected)
                    assert await bench.read(at.INFERENCES_IN) == 0, where
                else:
                    assert is_done, where
                    assert error in (0, BAD_START), where
                    assert error or not was_busy or cycle > 5, where
                    if error:
                        np.testing.assert_array_equal(await bench.taken(FEW, RESULT), expected)
                await bench.exact(inputs, expected)


async def length(bench: Bench, inputs: np.ndarray) -> int:
    before = await bench.read(at.CYCLES)
    await with_timeout(bench.run(inputs), 1, "ms")
    return await bench.read(at.CYCLES) - before


@cocotb.test()
async def the_driver_in_python(dut: Any) -> None:
    """The driver starts, waits, and names what goes wrong, and where."""
    bench, inputs, expected = await started(dut)
    bench.pause(0.2)
    device = MemoryDevice(*bridged(bench), timeout_s=60)
    model = await bridge(Model)(device, PROJECT)
    np.testing.assert_array_equal(await bridge(model.__call__)(inputs), expected)
    for channel, name in ((bench.ram.read_if.r_channel, "rresp"),):
        answer_with(channel, name, ANSWERS[0], 3 * bench.source.words)
        before = await bench.read(at.INFERENCES_OUT)
        try:
            await bridge(model.__call__)(inputs)
        except DriverError as error:
            assert str(error) == (
                f"the design reports bad_memory; results are wrong from {before + 3} on"
            )
        else:
            raise AssertionError("an error of the memory was not told")
    await bridge(model.reset)()
    np.testing.assert_array_equal(await bridge(model.__call__)(inputs[:2]), expected[:2])


class Device(ctypes.Structure):
    """`mase_registers` of the C header."""

    _fields_: ClassVar = [("read", READ), ("write", WRITE), ("context", ctypes.c_void_p)]


@cocotb.test()
async def the_driver_in_c(dut: Any) -> None:
    """The C header starts, waits, and names what goes wrong, and where."""
    bench, inputs, expected = await started(dut)
    registers, _ = bridged(bench)
    library = ctypes.CDLL(os.environ["BUS_LIBRARY"])
    library.take_errors.restype = ctypes.c_char_p
    library.pack.restype = ctypes.c_size_t
    device = ctypes.byref(
        Device(
            READ(lambda _, at: registers.read(at)), WRITE(lambda _, *pair: registers.write(*pair))
        )
    )
    first = ctypes.c_uint32()
    strides = [library.strides(end) for end in (0, 1)]
    packet = (ctypes.c_uint8 * strides[0])()
    for number, codes in enumerate(inputs):
        values = (ctypes.c_int64 * codes.size)(*codes.flatten().tolist())
        assert library.pack(values, packet) == 0
        bench.ram.write(number * strides[0], bytes(packet))

    async def call(name: str, *arguments: Any) -> Any:
        return await bridge(lambda: getattr(library, name)(device, *arguments))()

    def batch(count: int) -> int:
        result = ctypes.c_uint64(RESULT)
        if library.start(device, ctypes.c_uint64(0), result, count) != 0:
            return -1
        return int(library.finish(device, 100_000))

    assert await call("identify") == 0
    assert await bridge(batch)(len(inputs)) == 0
    codes = (ctypes.c_int64 * expected[0].size)()
    for number, wanted in enumerate(expected):
        library.unpack(bench.ram.read(RESULT + number * strides[1], strides[1]), codes)
        assert list(codes) == wanted.flatten().tolist()
    before = await bench.read(at.INFERENCES_OUT)
    answer_with(bench.ram.read_if.r_channel, "rresp", ANSWERS[1], 2 * bench.source.words)
    assert await bridge(batch)(len(inputs)) == 4
    taken = await call("take_errors", ctypes.byref(first))
    assert (taken, first.value) == (b"bad_memory", before + 2)
    await bench.write(at.COUNT, len(inputs))
    await bench.write(at.CONTROL, at.CONTROL_START)
    assert await bridge(batch)(1) == -1
    assert await call("take_errors", ctypes.byref(first)) == b"bad_start"
    assert await call("reset") == 0
    assert await bridge(batch)(1) == 0


def bridged(bench: Bench) -> tuple[Any, Any]:
    """Return registers and an allocator for code that runs in a thread beside the simulation."""
    registers = SimpleNamespace(read=resume(bench.read), write=resume(bench.write))
    free = [0x1000]

    def allocate(shape: tuple[int, ...], dtype: Any) -> Any:
        made = np.zeros(shape, dtype).view(Buffer)
        made.device_address = free[0] % SIZE
        made.ram = bench.ram
        free[0] += -(-made.nbytes // 64) * 64
        return made

    return registers, allocate


class Buffer(np.ndarray):
    """Memory that a program and the design see, each through a cache of its own."""

    device_address: int
    ram: Any

    def flush(self) -> None:
        self.ram.write(self.device_address, self.tobytes())

    def invalidate(self) -> None:
        data = self.ram.read(self.device_address, self.nbytes)
        self[:] = np.frombuffer(data, np.uint8).reshape(self.shape)

    def freebuffer(self) -> None:
        self.device_address = -1
