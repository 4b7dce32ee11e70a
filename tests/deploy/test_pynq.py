"""The driver of a Zynq board, with DMAs and registers that behave as PYNQ's do."""

import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mase_hw.deploy.bus import BusOptions
from mase_hw.deploy.driver import DriverError, Model, TimedOutError
from mase_hw.deploy.driver import registers as at
from mase_hw.deploy.driver.control import Control, error_names
from mase_hw.deploy.driver.memory_device import MemoryDevice
from mase_hw.deploy.driver.pynq_device import PynqDevice
from tests.deploy.designs import design_hash, emit, vectors


class Buffer(np.ndarray):
    """A buffer that a DMA sees once it was flushed, and a program once it was invalidated."""

    held: bytes = b""
    is_free = False

    def flush(self) -> None:
        self.held = self.tobytes()

    def invalidate(self) -> None:
        self[:] = np.frombuffer(self.held, np.uint8).reshape(self.shape)

    def freebuffer(self) -> None:
        assert not self.is_free
        self.is_free = True


class Registers:
    """Registers of a design with two inputs and outputs, or of another."""

    def __init__(self, design: int = 0, ports: int = 0x202) -> None:
        self.held = {
            at.MAGIC: at.MAGIC_WORD,
            at.HASH_LOW: design & 0xFFFFFFFF,
            at.HASH_HIGH: design >> 32,
            at.PORTS: ports,
        }
        self.written: list[tuple[int, int]] = []

    def read(self, address: int) -> int:
        return self.held.get(address, 0)

    def write(self, address: int, value: int) -> None:
        self.written.append((address, value))
        self.held[address] = self.held.get(address, 0) & ~value if address == at.ERROR else value


DMA = SimpleNamespace(sendchannel=0, recvchannel=0)


class Board:
    """A design behind DMAs, one a stream; each moves packets of as many inferences as BATCH."""

    def __init__(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs, self.expected = vectors(project, 9)
        count = len(self.inputs)
        self.registers = Registers(design_hash(project), 0x101 * count)
        self.buffers: list[Buffer] = []
        monkeypatch.setitem(sys.modules, "pynq", SimpleNamespace(allocate=self.allocate))
        model = Model(
            PynqDevice(SimpleNamespace(top_axis_0=self.registers, a=DMA, b=DMA), dmas="ab"), project
        )
        self.rows = [
            port.words_of(port.pack(codes))
            for ports, arrays in ((model.inputs, self.inputs), (model.outputs, self.expected))
            for port, codes in zip(ports, arrays, strict=True)
        ]
        self.sent: list[list[int]] = [[] for _ in range(count)]
        self.waiting: dict[int, Buffer] = {}
        self.dmas = [
            SimpleNamespace(sendchannel=Channel(self.send, n), recvchannel=Channel(self.receive, n))
            for n in (0, 1)
        ]
        self.overlay = SimpleNamespace(
            top_axis_0=self.registers, axi_dma_0=self.dmas[0], axi_dma_1=self.dmas[1]
        )

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Buffer:
        self.buffers.append(np.full(shape, 0xEE, dtype).view(Buffer))
        return self.buffers[-1]

    def receive(self, number: int, buffer: Buffer) -> None:
        self.waiting[number] = buffer

    def send(self, number: int, buffer: Buffer) -> None:
        start, count = sum(self.sent[number]), self.registers.held[at.BATCH]
        assert buffer.held == self.rows[number][start : start + count].tobytes()
        self.sent[number].append(count)
        if self.sent[0] == self.sent[-1]:
            for output, made in self.waiting.items():
                made.held = self.rows[len(self.sent) + output][start : start + count].tobytes()
            self.waiting.clear()


class Channel:
    """One direction of a DMA."""

    def __init__(self, act: Any, number: int) -> None:
        self.act, self.number, self.idle = act, number, True

    def transfer(self, buffer: Buffer) -> None:
        self.act(self.number, buffer)


@pytest.fixture
def board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> tuple[Board, Path]:
    """Return a board with a design of two streams each way, or that of the parameter."""
    name = getattr(request, "param", "pair")
    project = emit(name, tmp_path / "net", BusOptions("axi-stream", 16), parallelism=3).folder
    return Board(project, monkeypatch), project


DMAS = ("axi_dma_0", "axi_dma_1")


@pytest.mark.parametrize(
    ("board", "most_bytes", "transfers"),
    [
        ("pair", 1 << 14, [9]),
        ("pair", 30, [5, 4]),
        ("pair", 1, [1] * 9),
        ("perceptron", 30, [5, 4]),
    ],
    indirect=["board"],
)
def test_batches_go_in_one_transfer(
    board: tuple[Board, Path], most_bytes: int, transfers: list[int]
) -> None:
    parts, project = board
    model = Model(PynqDevice(parts.overlay, dmas=DMAS, most_bytes=most_bytes), project)
    reals = [port.decode(item) for port, item in zip(model.inputs, parts.inputs, strict=True)]
    for found, wanted in (
        (model(*parts.inputs), parts.expected),
        (model.encode(*reals), parts.inputs),
    ):
        results = found if isinstance(found, tuple) else (found,)
        for one, codes in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(one, codes)
    assert parts.sent == [transfers] * len(parts.inputs)
    assert all(buffer.is_free for buffer in parts.buffers)
    model.reset()
    assert parts.registers.written[-2:] == [(at.CONTROL, 1), (at.ERROR, 0xFFFFFFFF)]


def test_a_transfer_has_as_many_inferences_as_the_register_counts(
    board: tuple[Board, Path],
) -> None:
    parts, project = board
    parts.rows = [np.concatenate([item] * 30) for item in parts.rows]
    model = Model(PynqDevice(parts.overlay, dmas=DMAS), project)
    results = model(*(np.concatenate([item] * 30) for item in parts.inputs))
    for found, wanted in zip(results, parts.expected, strict=True):
        np.testing.assert_array_equal(found, np.concatenate([wanted] * 30))
    assert parts.sent == [[255, 15]] * 2


@pytest.mark.parametrize("dmas", [(), ("axi_dma_0",)])
def test_fewer_dmas_than_streams_are_refused(
    board: tuple[Board, Path], dmas: tuple[str, ...]
) -> None:
    parts, _ = board
    with pytest.raises(DriverError, match=f"has 2 inputs, and .* serves {len(dmas)}: name a DMA"):
        PynqDevice(parts.overlay, dmas=dmas)
    # Of registers that do not say it, the project does.
    parts.registers.held[at.PORTS] = 0
    with pytest.raises(DriverError, match=f"has 2 inputs, and .* serves {len(dmas)}"):
        Model(PynqDevice(parts.overlay, dmas=dmas), board[1])
    parts.registers.held[at.PORTS] = 0x202
    del parts.dmas[1].recvchannel
    with pytest.raises(DriverError, match=r"has 2 outputs, and .* serves 1"):
        PynqDevice(parts.overlay, dmas=DMAS)


def test_errors_and_silence_are_told(board: tuple[Board, Path]) -> None:
    parts, project = board
    model = Model(PynqDevice(parts.overlay, dmas=DMAS, timeout_s=0.01), project)
    few = [item[:1] for item in parts.inputs]
    parts.registers.held |= {at.ERROR: 0x01000102, at.FIRST_WRONG: 3}
    told = "short_packet of input 1, long_packet of input 0, bad_weights; results are wrong from 3"
    with pytest.raises(DriverError, match=told):
        model(*few)
    assert parts.registers.held[at.ERROR] == 0
    parts.dmas[1].recvchannel.idle = False
    parts.sent = [[], []]
    with pytest.raises(TimedOutError, match=r"did not end within 0\.01 s; STATUS is 0x0"):
        model(*few)
    assert all(buffer.is_free for buffer in parts.buffers)
    parts.registers.held[at.STATUS] = at.STATUS_BUSY
    with pytest.raises(TimedOutError, match="were not taken after a reset within"):
        model.reset()
    parts.registers.held[at.MAGIC] = 0
    with pytest.raises(DriverError, match="no design is at these registers"):
        PynqDevice(parts.overlay, dmas=DMAS)


def test_each_bit_of_error_has_a_name() -> None:
    assert error_names(0) == []
    assert error_names(1 << 7) == ["short_packet of input 7"]
    assert error_names(0x1F000000) == [*at.ERRORS][3:]


class Loader(Registers):
    """Registers that take an image: what becomes of it is asked of the test."""

    def __init__(self, busy: int = 0, refused: bool = False, whole: bool = True) -> None:
        super().__init__()
        self.words: list[int] = []
        self.busy, self.refused, self.whole = busy, refused, whole
        self.held[at.ERROR] = 1 << 24

    def read(self, address: int) -> int:
        if address == at.STATUS and not self.words:
            self.busy -= 1
            return 0 if self.busy >= 0 else at.STATUS_LOADING
        if address == at.STATUS:
            return at.STATUS_WEIGHTS_WHOLE * self.whole
        return super().read(address)

    def write(self, address: int, value: int) -> None:
        super().write(address, value)
        if address == at.WEIGHTS:
            self.words.append(value)
            self.held[at.ERROR] = self.refused << 24


IMAGE = struct.pack("<5I", 1, 2, 3, 0x89ABCDEF, 5)


def test_an_image_is_loaded_word_by_word() -> None:
    registers = Loader(busy=3)
    Control(registers).load(IMAGE)
    assert registers.words == [1, 2, 3, 0x89ABCDEF, 5]
    assert registers.written[:2] == [(at.ERROR, 1 << 24), (at.CONTROL, at.CONTROL_LOAD)]
    assert registers.busy == -1


@pytest.mark.parametrize(
    ("registers", "image", "told"),
    [
        (Loader(refused=True), IMAGE, "was refused; the weights of the design are as before"),
        (Loader(refused=True, whole=False), IMAGE, "are damaged: load an image that is whole"),
        (Loader(whole=False), IMAGE, "are damaged"),
        (Loader(), IMAGE[:-1], "has whole words; this one has 19 bytes"),
        (Loader(), IMAGE[:12], "this one has 12 bytes"),
    ],
)
def test_a_refused_image_is_told(registers: Loader, image: bytes, told: str) -> None:
    with pytest.raises(DriverError, match=told):
        Control(registers).load(image)
    assert bool(registers.words) == (image == IMAGE)


def test_an_image_that_is_half_taken_is_told() -> None:
    registers = Loader()
    registers.read = lambda address: at.STATUS_LOADING | at.STATUS_WEIGHTS_WHOLE  # type: ignore
    with pytest.raises(DriverError, match="was refused"):
        Control(registers).load(IMAGE)


def test_inferences_that_stay_inside_are_told() -> None:
    with pytest.raises(TimedOutError, match=r"were still in the design within 0\.01 s"):
        Control(Loader(busy=10**9), timeout_s=0.01).load(IMAGE)


class Memory(Registers):
    """Registers of a design with a memory: each inference's result is its packet, inverted."""

    def __init__(self, design: int) -> None:
        super().__init__(design, 0x40101)
        self.space = {}
        self.error = self.is_reset = self.is_busy = 0

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Buffer:
        made = np.full(shape, 0xEE, dtype).view(Buffer)
        made.device_address = 0x7_0000_0000 + 0x1000 * len(self.space)
        self.space[made.device_address] = made
        return made

    def address(self, low: int) -> int:
        return self.held[low + 4] << 32 | self.held[low]

    def write(self, address: int, value: int) -> None:
        super().write(address, value)
        if address == at.CONTROL and value == at.CONTROL_START:
            self.held[at.STATUS] = at.STATUS_BUSY if self.is_busy else at.STATUS_DONE
            source, result = (
                self.space[self.address(low)] for low in (at.INPUT_LOW, at.OUTPUT_LOW)
            )
            assert self.held[at.COUNT] == len(source) == len(result)
            width = result.shape[1]
            taken = np.frombuffer(source.held, np.uint8).reshape(source.shape)[:, :width]
            result.held = np.pad(~taken, ((0, 0), (0, width - taken.shape[1]))).tobytes()
            self.held[at.ERROR] = self.error
            if self.is_reset:
                self.held[at.STATUS] = 0


def test_a_memory_holds_whole_batches(tmp_path: Path) -> None:
    project = emit("perceptron", tmp_path / "net", BusOptions("axi-memory", 32)).folder
    registers = Memory(design_hash(project))
    model = Model(MemoryDevice(registers, registers.allocate, timeout_s=0.01), project)
    (codes,), _ = vectors(project, 5)
    np.testing.assert_array_equal(model(codes), ~codes[:, :3])
    assert model(codes[:0]).shape == (0, 3)
    source, result = registers.space.values()
    assert (source.shape, result.shape) == ((5, 8), (5, 4))
    for error, told in (
        (1 << 25, "reports bad_memory; results are wrong from 0"),
        (1 << 27, "reports bad_start"),
    ):
        registers.error = error
        with pytest.raises(DriverError, match=told):
            model(codes)
    registers.error, registers.is_reset = 0, 1
    with pytest.raises(DriverError, match="was ended by a reset"):
        model(codes)
    registers.is_reset, registers.is_busy = 0, 1
    with pytest.raises(TimedOutError, match=r"the batch did not end within 0\.01 s; STATUS is 0x1"):
        model(codes)
    assert all(buffer.is_free for buffer in registers.space.values())
    with pytest.raises(DriverError, match="the design has 1 and 2"):
        model.device.connect(model.inputs, model.outputs * 2)
    other = emit("pair", tmp_path / "pair", BusOptions("axi-stream", 16), parallelism=3).folder
    with pytest.raises(DriverError, match="one input and one output; the design has 2 and 2"):
        Model(MemoryDevice(Memory(design_hash(other)), registers.allocate), other)
