"""A design at its serial pins: host driver, line, design, line, host driver."""

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mase_hw.deploy.bus import BusOptions
from mase_hw.deploy.driver import DriverError, Model, WrongDesignError, frames
from mase_hw.deploy.driver.serial_device import SerialDevice
from mase_hw.deploy.driver.simulated import CLOCKS_PER_BIT, TIMEOUT_BITS, SimulatedLine
from tests.deploy.designs import design_hash, emit, vectors
from tests.deploy.simulation import build_pins, run_tests, save_vectors

Line = tuple[SimulatedLine, Path]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # One that is mutated, see tests/bench/bus_mutants.py.
    if folder := os.environ.get("BUS_UART"):
        return Path(folder)
    return emit("perceptron", tmp_path_factory.mktemp("net") / "net", BusOptions("uart")).folder


@pytest.fixture(scope="module")
def program(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pins(project, tmp_path_factory.mktemp("build"), CLOCKS_PER_BIT)


def pins(project: Path, folder: Path, clocks: int) -> Path:
    """Return a design at its serial pins; that of a mutated one was built before."""
    built = project.with_name(f"pins_{clocks}") / "top_uart"
    return built if built.is_file() else build_pins(project, folder, clocks)


@pytest.fixture
def line(project: Path, program: Path) -> Iterator[SimulatedLine]:
    with SimulatedLine(program, project) as found:
        yield found


def ask(line: SimulatedLine, records: bytes) -> frames.Answer:
    line.reset_input_buffer()
    line.records(records)
    (answer,) = split(line.read(1 << 16))
    return answer


def driven(data: bytes) -> bytes:
    return b"".join(b"B" + bytes([item]) for item in data)


def raw(bits: int) -> bytes:
    return b"R" + struct.pack("<H", bits)


def raw_level(level: int) -> bytes:
    return b"L" + bytes([level])


def rate(clocks: int) -> bytes:
    return b"C" + struct.pack("<H", clocks)


def idle(bits: int) -> bytes:
    return b"I" + struct.pack("<I", bits)


def test_results_are_equal_host_to_host(line: SimulatedLine, project: Path) -> None:
    (inputs,), (expected,) = vectors(project, 20)
    model = Model(SerialDevice(line, timeout_s=0.1), project)
    np.testing.assert_array_equal(model(inputs), expected)
    model.reset()
    np.testing.assert_array_equal(model(inputs[:1]), expected[:1])


def damaged(frame: bytes, place: int, bit: int = 0) -> bytes:
    return frame[:place] + bytes([frame[place] ^ 1 << bit]) + frame[place + 1 :]


def resummed(frame: bytes) -> bytes:
    import zlib

    return frame[:-4] + struct.pack("<I", zlib.crc32(frame[:-4]))


def faults(right: bytes) -> dict[str, tuple[bytes, int]]:
    payload = len(right) - 20
    stop_missing = (right[6] << 1) & 0x1FF
    return {
        "first letter": (driven(damaged(right, 0)), 1),
        "second letter": (driven(damaged(right, 1)), 1),
        "noise before a frame": (driven(b"\x55" + right), 1),
        "unknown command": (driven(resummed(damaged(right, 2, 4))), 2),
        "another design": (driven(resummed(damaged(right, 5))), 3),
        "last byte of the hash": (driven(resummed(damaged(right, 11, 7))), 3),
        "one byte more is announced": (driven(resummed(damaged(right, 12))), 4),
        "a length without end": (driven(damaged(right, 15, 7)), 4),
        "a short payload that is announced": (
            driven(frames.request(2, 1, struct.unpack("<Q", right[4:12])[0], bytes(payload - 1))),
            4,
        ),
        "a bit of the payload": (driven(damaged(right, 17, 3)), 5),
        "a bit of the checksum": (driven(damaged(right, len(right) - 1, 6)), 5),
        "a byte too much in the payload": (driven(right[:17] + b"\0" + right[17:]), 5),
        "the sequence": (driven(damaged(right, 3)), 5),
        "a byte is lost": (driven(right[:17] + right[18:]), 6),
        "the frame ends in its header": (driven(right[:7]), 6),
        "the frame ends in its payload": (driven(right[:18]), 6),
        "the frame ends in its checksum": (driven(right[:-1]), 6),
        "a pause in a frame": (driven(right[:9]) + idle(2 * TIMEOUT_BITS), 6),
        "a stop bit is missing": (
            driven(right[:6]) + raw(stop_missing) + idle(3) + driven(right[7:]),
            7,
        ),
        "the line breaks": (raw(0) * 5, 7),
        "another rate": (
            rate(CLOCKS_PER_BIT * 3 // 2) + driven(right) + rate(CLOCKS_PER_BIT),
            None,
        ),
    }


@pytest.mark.full
def test_every_fault_of_a_frame_is_told(line: SimulatedLine, project: Path) -> None:
    (inputs,), (expected,) = vectors(project, 2)
    model = Model(SerialDevice(line, timeout_s=0.1), project)
    right = frames.request(frames.RUN, 7, model.hash, model.inputs[0].pack(inputs[:1]).tobytes())
    for name, (records, status) in faults(right).items():
        answer = ask(line, records)
        if status is None:
            assert answer.status != frames.WELL, name
        else:
            assert (answer.status, answer.payload) == (status, b""), name
        assert answer.hash == model.hash
        good = ask(line, driven(right))
        assert (good.status, good.sequence) == (frames.WELL, 7), name
        found = model.outputs[0].unpack(np.frombuffer(good.payload, np.uint8)[None])
        np.testing.assert_array_equal(found, expected[:1], err_msg=name)


def test_a_second_frame_before_the_answer_is_told(line: SimulatedLine, project: Path) -> None:
    (inputs,), _ = vectors(project, 1)
    model = Model(SerialDevice(line, timeout_s=0.1), project)
    right = frames.request(frames.RUN, 7, model.hash, model.inputs[0].pack(inputs).tobytes())
    line.records(driven(right + right))
    assert [item.status for item in split(line.read(1 << 16))] == [frames.WELL, 8]


# Cycles of a bit for which a rate can be 3 % off, and a bit be sampled beside its middle.
FINE = 32


@pytest.fixture(scope="module")
def fine(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pins(project, tmp_path_factory.mktemp("fine"), FINE)


@pytest.mark.parametrize("clocks", [FINE - 1, FINE + 1])
def test_a_rate_off_by_3_percent_is_understood(fine: Path, project: Path, clocks: int) -> None:
    (inputs,), (expected,) = vectors(project, 4)
    with SimulatedLine(fine, project) as line:
        model = Model(SerialDevice(line, timeout_s=0.1), project)
        for codes, wanted in zip(inputs, expected, strict=True):
            packet = model.inputs[0].pack(codes[None]).tobytes()
            right = frames.request(frames.RUN, 9, model.hash, packet)
            answer = ask(line, rate(clocks) + driven(right) + rate(FINE))
            assert (answer.status, answer.sequence) == (frames.WELL, 9)
            found = model.outputs[0].unpack(np.frombuffer(answer.payload, np.uint8)[None])
            np.testing.assert_array_equal(found, wanted[None])


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_bit_is_looked_at_in_its_middle(fine: Path, project: Path, share: float) -> None:
    """What lies in the first or last third of each bit is not read."""
    design = design_hash(project)
    frame = frames.request(frames.IDENTIFY, 5, design)
    edge = round(FINE * share)
    with SimulatedLine(fine, project) as line:
        records = b""
        for item in frame:
            bits = [0, *(item >> n & 1 for n in range(8)), 1]
            for n, bit in enumerate(bits):
                # The start bit is found by its edge, and ten levels are driven at a time.
                other = bit if n == 0 else 1 - bit
                first, last = (other, bit) if share < 0.5 else (bit, other)
                if n == 9:
                    first = last = 1
                records += rate(edge) + raw_level(first) + rate(FINE - edge) + raw_level(last)
        answer = ask(line, records + rate(FINE))
    assert (answer.status, answer.sequence) == (frames.WELL, 5)


def test_random_faults_are_told_and_forgotten(line: SimulatedLine, project: Path) -> None:
    """Whatever is sent is answered, without a result of what is damaged; the next is right."""
    chance = random.Random(int(os.environ.get("BUS_SEED", "0")))
    (inputs,), (expected,) = vectors(project, 4)
    model = Model(SerialDevice(line, timeout_s=0.1), project)
    packets = [item.tobytes() for item in model.inputs[0].pack(inputs)]
    for turn in range(int(os.environ.get("BUS_TURNS", "40"))):
        number = chance.randrange(len(packets))
        right = frames.request(frames.RUN, turn % 256, model.hash, packets[number])
        wrong = right
        for _ in range(chance.choice((1, 2))):
            place = chance.randrange(len(wrong))
            wrong = (
                chance.choice(
                    (
                        damaged(wrong, place, chance.randrange(8)),
                        wrong[:place] + wrong[place + 1 :],
                        wrong[:place] + bytes([chance.randrange(256)]) + wrong[place:],
                        wrong[:place],
                    )
                )
                or right[:1]
            )
        records = driven(wrong)
        if chance.random() < 0.3:
            place = chance.randrange(1, len(wrong)) if len(wrong) > 1 else 0
            records = driven(wrong[:place]) + idle(2 * TIMEOUT_BITS) + driven(wrong[place:])
        line.reset_input_buffer()
        line.records(records)
        answers = split(line.read(1 << 16))
        assert answers, (turn, wrong.hex())
        if wrong != right:
            assert all(item.status != frames.WELL for item in answers[:1]), (turn, wrong.hex())
        assert all((item.status == frames.WELL) == bool(item.payload) for item in answers)
        good = ask(line, driven(right))
        assert (good.status, good.sequence) == (frames.WELL, turn % 256), (turn, wrong.hex())
        found = model.outputs[0].unpack(np.frombuffer(good.payload, np.uint8)[None])
        np.testing.assert_array_equal(found, expected[number : number + 1])


def split(data: bytes) -> list[frames.Answer]:
    found = []
    while data:
        end = frames.HEADER.size + frames.answer_length(data[: frames.HEADER.size])
        found.append(frames.read_answer(data[:end]))
        data = data[end:]
    return found


class Answers:
    """A line whose other end answers each frame with what a test says."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.waiting, self.sent = [*answers], b"", []

    def write(self, data: bytes) -> None:
        self.sent.append(data)
        self.waiting = self.answers.pop(0) if self.answers else b""

    def read(self, size: int) -> bytes:
        taken, self.waiting = self.waiting[:size], self.waiting[size:]
        return taken

    def reset_input_buffer(self) -> None:
        self.waiting = b""


class Slow(Answers):
    """A line that gives ten bytes at a time."""

    def read(self, size: int) -> bytes:
        return super().read(min(size, 10))


def answer_of(design: int, sequence: int, payload: bytes = b"", status: int = 0) -> bytes:
    return resummed(
        frames.HEADER.pack(b"mh", status, sequence, design, len(payload)) + payload + bytes(4)
    )


def test_an_answer_of_another_design_is_refused(project: Path) -> None:
    design = design_hash(project)
    for status in (frames.WELL, 5, frames.WRONG_HASH):
        line = Answers(answer_of(design, 1), answer_of(design ^ 1 << 40, 2, bytes(3), status))
        model = Model(SerialDevice(line, timeout_s=0.01), project)
        with pytest.raises(WrongDesignError, match=f"holds the design {design ^ 1 << 40:016x}"):
            model(np.zeros((1, 6), int))
        assert len(line.sent) == 2


def test_an_answer_is_asked_for_again(project: Path) -> None:
    """An answer that is damaged, late, of an earlier frame, or an error is asked for thrice."""
    assert [*frames.STATUS] == [*range(10)]
    design = design_hash(project)
    good = answer_of(design, 4, bytes([1, 2, 3]))
    wrong = {
        "wrong checksum": damaged(answer_of(design, 2, bytes(3)), 17),
        "began with|begins with": b"mm" + bytes(18),
        "0 of 16 bytes": b"",
        "answered 5: wrong checksum": answer_of(design, 2, status=5),
        "answered 0": answer_of(design, 1, bytes(3)),
        "says that it has": frames.HEADER.pack(b"mh", 0, 2, design, 1 << 25),
    }
    for told, bad in wrong.items():
        line = Answers(answer_of(design, 1), bad, bad, good)
        model = Model(SerialDevice(line, timeout_s=0.005), project)
        assert model(np.zeros((1, 6), int)).tolist() == [[1, 2, 3]], told
        line = Answers(answer_of(design, 1), bad, bad, bad)
        model = Model(SerialDevice(line, timeout_s=0.005), project)
        with pytest.raises(DriverError, match=told):
            model(np.zeros((1, 6), int))
        assert len(line.sent) == 4
    line = Answers(answer_of(design, 1), answer_of(design, 2, bytes(2)))
    model = Model(SerialDevice(line, timeout_s=0.005), project)
    with pytest.raises(DriverError, match="a result has 2 bytes in place of 3"):
        model(np.zeros((1, 6), int))


def test_an_answer_comes_in_parts(project: Path) -> None:
    design = design_hash(project)
    line = Slow(answer_of(design, 1), answer_of(design, 2, bytes([1, 2, 3])))
    model = Model(SerialDevice(line), project)
    assert model(np.zeros((1, 6), int)).tolist() == [[1, 2, 3]]


def test_the_end_of_a_simulation_is_told(tmp_path: Path) -> None:
    program = tmp_path / "ends"
    program.write_text("#!/bin/sh\nhead -c 7 > /dev/null\n")
    program.chmod(0o755)
    with (
        SimulatedLine(program, tmp_path) as line,
        pytest.raises(DriverError, match="simulation ended"),
    ):
        line.write(b"a")


def test_a_glitch_on_a_silent_line_is_nothing(line: SimulatedLine, project: Path) -> None:
    line.records(rate(1) + raw(0b1111111110) + rate(CLOCKS_PER_BIT))
    assert line.read(100) == b""
    Model(SerialDevice(line, timeout_s=0.1), project)


def test_the_driver_of_another_design_is_refused(line: SimulatedLine, tmp_path: Path) -> None:
    other = emit("convolution", tmp_path / "other", BusOptions("uart")).folder
    with pytest.raises(WrongDesignError, match="take the driver of that one"):
        Model(SerialDevice(line, timeout_s=0.1), other)


def test_several_streams_share_a_frame(tmp_path: Path) -> None:
    folder = emit("pair", tmp_path / "net", BusOptions("uart"), parallelism=3).folder
    inputs, expected = vectors(folder, 5)
    (tmp_path / "build").mkdir()
    with SimulatedLine(build_pins(folder, tmp_path / "build"), folder) as line:
        found = Model(SerialDevice(line, timeout_s=0.1), folder)(*inputs)
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, wanted)


@pytest.mark.full
def test_the_pins_speak_with_another_serial_line(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("cocotbext.uart")
    environment = {
        "BUS_VECTORS": str(save_vectors(tmp_path / "vectors.npz", *vectors(project, 20))),
        "BUS_CLOCKS_PER_BIT": "16",
        "BUS_HASH": f"{design_hash(project):016x}",
    }
    options = ("-GCLOCKS_PER_BIT=16", "-GTIMEOUT_BITS=64")
    assert run_tests(project, "uart_cocotb", environment, options=options) == 1
