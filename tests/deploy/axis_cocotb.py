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
from cocotb.triggers import ClockCycles, RisingEdge, Timer, with_timeout
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
from driver import registers as at  # noqa: E402
from driver.layout import Port  # noqa: E402

STREAM = ("data", "keep", "last")
# Inferences whose interval is measured.
FULL_RATE = 200
LOST = 1 << 28
# Inferences of a batch that is disturbed.
FEW = 3
# Of one in which packets are wrong.
MANY = 40


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
        data = await self.lite.read(getattr(at, name), 4)
        return int.from_bytes(data.data, "little")

    async def write(self, name: str, value: int) -> None:
        await self.lite.write(getattr(at, name), value.to_bytes(4, "little"))

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

    async def settled(self) -> None:
        """Wait until nothing is inside, or nothing moves any more."""
        before, same = -1, 0
        while same < 20:
            moves = sum(checker.moves for checker in self.checkers if "axis" in checker.prefix)
            same = same + 1 if moves == before else 0
            before = moves
            await ClockCycles(self.dut.aclk, 20)

    def taken(self) -> list[np.ndarray]:
        found = []
        for port, sink in zip(self.ports["outputs"], self.sinks, strict=True):
            rows = []
            while not sink.empty():
                data = bytes(sink.recv_nowait().tdata)
                assert len(data) == port.bytes, (len(data), port.bytes)
                rows.append(np.frombuffer(data, np.uint8))
            found.append(np.stack(rows) if rows else np.zeros((0, port.bytes), np.uint8))
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


def packets_of(bench: Bench, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [port.pack(item) for port, item in zip(bench.ports["inputs"], inputs, strict=True)]


def moments(cycles: int) -> list[int]:
    count = int(os.environ.get("BUS_MOMENTS", "0"))
    every = range(cycles)
    return list(every) if not count else sorted(random.Random(count).sample(every, count))


async def _equal(bench: Bench, inputs: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Send all inferences back to back and compare every code of every result."""
    packets = packets_of(bench, inputs)
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
    assert (await bench.lite.write(0x00, b"1234")).resp != 0
    cycles = await bench.read("CYCLES")
    assert await bench.read("CYCLES") > cycles
    bench.check_rules()


@cocotb.test()
async def resets_at_any_time(dut: Any) -> None:
    """Whenever a reset comes, what it loses is told, packets are whole, and the next are right."""
    bench = Bench(dut)
    await bench.start()
    await check_resets(bench)


async def check_resets(bench: Bench) -> None:
    """Reset a design in every cycle of a batch, or in some."""
    inputs, expected = ([item[:FEW] for item in items] for items in vectors())
    for stall in (0.0, 0.5):
        bench.pause(stall, 2)
        before = await bench.read("CYCLES")
        await _equal(bench, inputs, expected)
        cycles = await bench.read("CYCLES") - before
        for cycle in moments(cycles):
            await bench.send(packets_of(bench, inputs))
            await ClockCycles(bench.dut.aclk, cycle + 1)
            await bench.write("CONTROL", at.CONTROL_RESET)
            for source in bench.sources:
                await with_timeout(source.wait(), 1, "ms")
            await bench.settled()
            found, error = bench.taken(), await bench.read("ERROR")
            if not error:
                for port, rows, codes in zip(bench.ports["outputs"], found, expected, strict=True):
                    wanted = codes.reshape(-1, *port.item_shape)
                    np.testing.assert_array_equal(port.unpack(rows), wanted, str((stall, cycle)))
            # Of several inputs, one may hold an inference whose others are lost.
            await bench.write("CONTROL", at.CONTROL_RESET)
            await bench.settled()
            bench.taken()
            await bench.write("ERROR", 0xFFFFFFFF)
            await _equal(bench, inputs, expected)
            assert await bench.read("ERROR") == 0, (stall, cycle)
    bench.check_rules()


@cocotb.test()
async def a_reset_waits_for_words_on_offer(dut: Any) -> None:
    """STATUS is busy, and the design takes nothing, until what was offered before is taken."""
    bench = Bench(dut)
    await bench.start()
    inputs, expected = ([item[:FEW] for item in items] for items in vectors())
    for sink in bench.sinks:
        sink.pause = True
    await bench.send([rows[:1] for rows in packets_of(bench, inputs)])
    while not int(dut.m_axis_0_tvalid.value):
        await RisingEdge(dut.aclk)
    before = int(dut.m_axis_0_tdata.value)
    await bench.write("CONTROL", at.CONTROL_RESET)
    for _ in range(4):
        await ClockCycles(dut.aclk, 50)
        assert await bench.read("STATUS") & at.STATUS_BUSY
        assert int(dut.m_axis_0_tvalid.value) and int(dut.m_axis_0_tdata.value) == before
        assert not int(dut.s_axis_0_tready.value)
        assert await bench.read("CYCLES") == 0
    for sink in bench.sinks:
        sink.pause = False
    await bench.settled()
    assert not await bench.read("STATUS") & at.STATUS_BUSY
    assert await bench.read("ERROR") == LOST
    await bench.write("ERROR", LOST)
    bench.taken()
    await _equal(bench, inputs, expected)
    bench.check_rules()


@cocotb.test()
async def faults_in_a_row(dut: Any) -> None:
    """Random packets: what is right stays right, and ERROR, FIRST_WRONG and counters are exact."""
    bench = Bench(dut)
    await bench.start()
    inputs, expected = ([item[:MANY] for item in items] for items in vectors())
    packets = packets_of(bench, inputs)
    chance = random.Random(int(os.environ.get("BUS_SEED", "0")))
    for turn in range(int(os.environ.get("BUS_TURNS", "12"))):
        bench.pause(chance.choice((0.0, 0.4)), turn)
        wrong: dict[int, set[int]] = {}
        bits = 0
        ends = [len(rows) for rows in packets]
        for number, (source, rows) in enumerate(zip(bench.sources, packets, strict=True)):
            word = bench.ports["inputs"][number].bus_bytes
            for place, row in enumerate(rows):
                kind = chance.choice(("right",) * 4 + ("short", "long", "keep", "long and keep"))
                frame = AxiStreamFrame(row.tobytes())
                words = -(-len(row) // word)
                if kind == "short" and words > 1:
                    cut = chance.randrange(1, words)
                    frame = AxiStreamFrame(row[: cut * word].tobytes())
                elif kind.startswith("long"):
                    more = chance.randrange(1, 2 * words + 2) * word
                    body = np.pad(row, (0, words * word - len(row)))
                    frame = AxiStreamFrame(np.concatenate([body, np.resize(row, more)]).tobytes())
                if kind.endswith("keep") and word > 1:
                    frame.tkeep = [1] * len(frame.tdata)
                    frame.tkeep[0] = 0
                fault = bits_of(kind, words, word, len(row))
                if fault:
                    wrong.setdefault(place, set()).add(number)
                    bits |= fault << number
                await source.send(frame)
        found = await bench.receive(ends[0])
        assert await bench.read("ERROR") == bits, turn
        assert int(dut.error.value) == bool(bits), turn
        if wrong:
            assert await bench.read("FIRST_WRONG") == min(wrong) + turn * ends[0], turn
        assert await bench.read("INFERENCES_IN") == (turn + 1) * ends[0], turn
        assert await bench.read("INFERENCES_OUT") == (turn + 1) * ends[0], turn
        for port, rows, codes in zip(bench.ports["outputs"], found, expected, strict=True):
            right = [place for place in range(ends[0]) if place not in wrong]
            wanted = codes.reshape(-1, *port.item_shape)
            np.testing.assert_array_equal(port.unpack(rows)[right], wanted[right], str(turn))
        await bench.write("ERROR", 0xFFFFFFFF)
    bench.check_rules()


def bits_of(kind: str, words: int, word: int, size: int) -> int:
    """Return the bits of ERROR that a fault of input 0 sets."""
    bits = 0
    if kind == "short" and words > 1:
        bits |= 1
    if kind.startswith("long"):
        bits |= 1 << 8
        # All bytes of a word that ends an inference are marked then.
        bits |= (size % word != 0) << 16
    if kind.endswith("keep") and word > 1:
        bits |= 1 << 16
    return bits


@cocotb.test()
async def a_short_packet_is_filled_with_zeros(dut: Any) -> None:
    """However much is missing, what computes gets zeros in its place."""
    bench = Bench(dut)
    await bench.start()
    port = bench.ports["inputs"][0]
    inputs, _ = vectors()
    packets = packets_of(bench, [item[:1] for item in inputs])
    whole = packets[0][0]
    for cut in range(1, port.words):
        short = whole[: cut * port.bus_bytes]
        filled = np.pad(short, (0, len(whole) - len(short)))
        results = []
        for sent in (short, filled):
            await bench.sources[0].send(AxiStreamFrame(sent.tobytes()))
            for source, rows in zip(bench.sources[1:], packets[1:], strict=True):
                await source.send(AxiStreamFrame(rows[0].tobytes()))
            results.append(await bench.receive(1))
        for one, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other, str(cut))
        assert await bench.read("ERROR") == 1
        await bench.write("ERROR", 1)


@cocotb.test()
async def batches_in_one_packet(dut: Any) -> None:
    """Many inferences are one packet each way; one that ends too early is filled to its end."""
    bench = Bench(dut)
    await bench.start()
    bench.pause(0.3, 4)
    inputs, expected = vectors()
    for count, missing in ((1, 0), (5, 0), (3, 2), (len(inputs[0]), 0)):
        await bench.write("BATCH", count)
        packets = packets_of(bench, [item[:count] for item in inputs])
        for source, port, rows in zip(bench.sources, bench.ports["inputs"], packets, strict=True):
            whole = np.pad(rows, ((0, 0), (0, port.words * port.bus_bytes - port.bytes)))
            await source.send(AxiStreamFrame(whole[: count - missing].tobytes()))
        for port, sink, codes in zip(bench.ports["outputs"], bench.sinks, expected, strict=True):
            frame = await with_timeout(sink.recv(), 1, "ms")
            rows = np.frombuffer(bytes(frame.tdata), np.uint8).reshape(count, -1)
            assert rows.shape[1] == port.words * port.bus_bytes
            wanted = codes.reshape(-1, *port.item_shape)[: count - missing]
            found = port.unpack(rows[:, : port.bytes])
            np.testing.assert_array_equal(found[: count - missing], wanted)
        error = await bench.read("ERROR")
        assert error == ((1 << len(packets)) - 1 if missing else 0), (count, hex(error))
        await bench.write("ERROR", error)
    await bench.write("BATCH", 0)
    await _equal(bench, *vectors())
    assert await bench.read("ERROR") == 0
    bench.check_rules()


@cocotb.test()
async def a_start_without_a_memory_is_told(dut: Any) -> None:
    """A start of a design with streams alone does nothing, and says so."""
    bench = Bench(dut)
    await bench.start()
    await bench.write("CONTROL", at.CONTROL_START)
    assert await bench.read("ERROR") == 1 << at.ERRORS["bad_start"][0]


@cocotb.test()
async def full_rate(dut: Any) -> None:
    """Without pauses an inference takes the interval that was predicted for the bare top."""
    bench = Bench(dut)
    await bench.start()
    inputs = [item[:FULL_RATE] for item in vectors()[0]]
    packets = packets_of(bench, inputs)
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
