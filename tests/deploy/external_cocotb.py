"""Runs a design behind AXI4-Stream whose weights lie in a memory on AXI4, inside the simulator."""

import json
import random
from typing import Any

import cocotb
from cocotbext.axi import AxiRamRead, AxiReadBus

from tests.deploy.axis_cocotb import PROJECT, Bench, _equal, _pauses, check_resets, vectors
from tests.deploy.faults import ANSWERS, answer_with
from tests.deploy.protocol import ChannelChecker

BAD_EXTERNAL = 1 << 26


async def started(dut: Any) -> tuple[Bench, AxiRamRead]:
    bench = Bench(dut)
    clock = dut.core_clk if bench.bus["own_clock"] else dut.aclk
    bus = AxiReadBus.from_prefix(dut, "m_axi")
    memory = AxiRamRead(bus, clock, dut.aresetn, reset_active_level=False, size=1 << 16)
    external = json.loads((PROJECT / "design.json").read_text())["external_memory"]
    memory.write(0, (PROJECT / external["file"]).read_bytes())
    for number, channel in enumerate((memory.ar_channel, memory.r_channel)):
        channel.set_pause_generator(_pauses(0.3, random.Random(number)))
    payload = ("addr", "len", "size", "burst")
    bench.checkers.append(ChannelChecker(dut, clock, "m_axi_ar", payload, dut.aresetn))
    await bench.start()
    return bench, memory


@cocotb.test()
async def weights_from_a_slow_memory(dut: Any) -> None:
    """Results are equal while the memory and all ports pause."""
    bench, _ = await started(dut)
    bench.pause(0.3, 1)
    await _equal(bench, *vectors())
    assert await bench.read("ERROR") == 0


@cocotb.test()
async def errors_of_the_memory(dut: Any) -> None:
    """An answer with an error is told by its bit, and results come all the same."""
    bench, memory = await started(dut)
    inputs, _ = vectors()
    for code in ANSWERS:
        answer_with(memory.r_channel, "rresp", code, 3)
        (port,), (codes,) = bench.ports["inputs"], inputs
        task = cocotb.start_soon(bench.receive(len(codes)))
        await bench.send([port.pack(codes)])
        (rows,) = await task
        assert len(rows) == len(codes)
        assert await bench.read("ERROR") == BAD_EXTERNAL, code
        assert int(dut.error.value) == 1
        await bench.write("CONTROL", 1)
        await bench.write("ERROR", BAD_EXTERNAL)
        assert await bench.read("ERROR") == 0, code
    bench.check_rules()


@cocotb.test()
async def resets_at_any_time(dut: Any) -> None:
    """Bursts of weights from before a reset are taken for none behind it."""
    bench, _ = await started(dut)
    await check_resets(bench)
