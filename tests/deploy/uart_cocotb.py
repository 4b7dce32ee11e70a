"""Drives the serial pins of a design with cocotbext-uart, inside the simulator."""

import os
import sys
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import Timer, with_timeout
from cocotbext.uart import UartSink, UartSource

from tests.deploy.axis_cocotb import vectors

PROJECT = Path(os.environ["BUS_PROJECT"])
sys.path.insert(0, str(PROJECT))
from driver import Model, frames  # noqa: E402

PERIOD_NS, CLOCKS_PER_BIT = 10, int(os.environ["BUS_CLOCKS_PER_BIT"])


@cocotb.test()
async def results_over_the_line(dut: Any) -> None:
    """Frames of all inferences are answered with their results; one of another design is not."""
    cocotb.start_soon(Clock(dut.clk, PERIOD_NS, "ns").start())
    baud = 1e9 / (PERIOD_NS * CLOCKS_PER_BIT)
    source, sink = UartSource(dut.rx, baud=baud), UartSink(dut.tx, baud=baud)
    dut.rst.value = 1
    await Timer(100, "ns")
    dut.rst.value = 0
    await Timer(20 * PERIOD_NS * CLOCKS_PER_BIT, "ns")
    design = int(os.environ["BUS_HASH"], 16)
    model = Model(Known(design), PROJECT)
    (inputs,), (expected,) = vectors()
    for number, packet in enumerate(model.inputs[0].pack(inputs)):
        right = frames.request(frames.RUN, number, design, packet.tobytes())
        answer = await ask(source, sink, right)
        assert (answer.status, answer.sequence) == (frames.WELL, number)
        found = model.outputs[0].unpack(np.frombuffer(answer.payload, np.uint8)[None])
        np.testing.assert_array_equal(found, expected[number : number + 1])
    wrong = frames.request(frames.RUN, 7, design ^ 1, bytes(model.inputs[0].bytes))
    assert (await ask(source, sink, wrong)).status == 3


class Known:
    """A device whose design is known."""

    def __init__(self, design: int) -> None:
        self._design = design

    def identify(self) -> int:
        return self._design

    def connect(self, inputs: Any, outputs: Any) -> None:
        pass


async def ask(source: UartSource, sink: UartSink, frame: bytes) -> frames.Answer:
    await source.write(frame)
    found = b""
    while len(found) < frames.HEADER.size:
        found += bytes([*(await with_timeout(sink.read(1), 5, "ms"))])
    while len(found) < frames.HEADER.size + frames.answer_length(found[: frames.HEADER.size]):
        found += bytes([*(await with_timeout(sink.read(1), 5, "ms"))])
    return frames.read_answer(found)
