"""The driver of a Zynq board, with DMAs and registers that behave as PYNQ's do."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mase_hw.deploy.bus import BusOptions
from mase_hw.deploy.driver import DriverError, Model, TimedOutError
from mase_hw.deploy.driver.pynq_device import PynqDevice
from tests.deploy.designs import emit, vectors


class Buffer(np.ndarray):
    """A buffer that a DMA sees."""

    def flush(self) -> None:
        """Do nothing."""

    def invalidate(self) -> None:
        """Do nothing."""

    def freebuffer(self) -> None:
        """Do nothing."""


class Registers:
    """Registers of a design."""

    def __init__(self, design: int) -> None:
        self.held = {0x00: 0x4D415345, 0x08: design & 0xFFFFFFFF, 0x0C: design >> 32}
        self.written: list[tuple[int, int]] = []

    def read(self, address: int) -> int:
        return self.held.get(address, 0)

    def write(self, address: int, value: int) -> None:
        self.written.append((address, value))


class Channel:
    """One direction of a DMA."""

    def __init__(self, act: Any) -> None:
        self.act, self.idle = act, True

    def transfer(self, buffer: np.ndarray) -> None:
        self.act(buffer)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def allocate(shape: tuple[int, ...], dtype: Any) -> Buffer:
        return np.zeros(shape, dtype).view(Buffer)

    monkeypatch.setitem(sys.modules, "pynq", SimpleNamespace(allocate=allocate))
    import json

    project = emit("perceptron", tmp_path / "net", BusOptions("axi-stream", 32)).folder
    (inputs,), (expected,) = vectors(project, 5)
    design = int(json.loads((project / "design.json").read_text())["bus"]["hash"], 16)
    registers, sent, waiting = Registers(design), [], []
    overlay = SimpleNamespace(top_axis_0=registers)
    model = Model(
        SimpleNamespace(identify=lambda: design),
        project,  # type: ignore[arg-type]
    )

    def send(buffer: np.ndarray) -> None:
        number = len(sent)
        sent.append(bytes(buffer))
        waiting.pop()[:] = model.outputs[0].pack(expected[number : number + 1])[0]

    overlay.axi_dma_0 = SimpleNamespace(
        sendchannel=Channel(send), recvchannel=Channel(waiting.append)
    )
    return project, overlay, registers, sent, inputs, expected


def test_packets_go_through_dmas(parts: Any) -> None:
    project, overlay, registers, sent, inputs, expected = parts
    model = Model(PynqDevice(overlay), project)
    np.testing.assert_array_equal(model(inputs), expected)
    assert b"".join(sent) == model.inputs[0].pack(inputs).tobytes()
    model.reset()
    assert registers.written == [(0x14, 1), (0x1C, 0xFFFFFFFF)]


def test_errors_and_silence_are_told(parts: Any) -> None:
    project, overlay, registers, _, inputs, _ = parts
    model = Model(PynqDevice(overlay, timeout_s=0.01), project)
    registers.held |= {0x1C: 1, 0x2C: 3}
    with pytest.raises(DriverError, match="the errors 0x1 from inference 3 on"):
        model(inputs[:1])
    registers.held[0x1C] = 0
    overlay.axi_dma_0.recvchannel.idle = False
    with pytest.raises(TimedOutError, match=r"did not end within 0\.01 s; STATUS is 0x0"):
        model(inputs[:1])
    registers.held[0] = 0
    with pytest.raises(DriverError, match="no design is at these registers"):
        Model(PynqDevice(overlay), project)
