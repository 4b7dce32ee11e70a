"""Plain Verilog of a project, for tools without packages and struct parameters; a testbench."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mase_hw._resources import template_environment
from mase_hw.deploy.bus import Bus
from mase_hw.deploy.packets import Packet, signals
from mase_hw.emit.design import DesignSummary
from mase_hw.hardware.synth import Entry, plain_verilog
from mase_hw.sim.layout import StreamLayout

FOLDER = "verilog"
Octets = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class TestStream:
    """A stream of the testbench.

    Attributes:
        name: of its file of vectors.
        slices: ports, each with its highest and lowest bit of a vector.
        valid: port.
        ready: port.
        count: vectors.
    """

    name: str
    slices: tuple[tuple[str, int, int], ...]
    valid: str
    ready: str
    count: int

    @property
    def width_bits(self) -> int:
        """Bits of a vector."""
        return self.slices[-1][1] + 1


@dataclass(frozen=True)
class Vectors:
    """Words of one stream, `[count, bits]`, and those of their bits that count."""

    stream: TestStream
    bits: Octets
    mask: Octets


def entry_of(bus: Bus | None) -> Entry:
    """Return where a project begins: at its bus ports, where it has any."""
    if bus is None:
        return Entry()
    return Entry(bus.kind.module, "bus/files.f", f"{bus.kind.module}.u_top")


def write_plain(folder: Path, summary: DesignSummary, bus: Bus | None) -> None:
    """Write `verilog/`: the whole design as one file, a testbench, and its vectors.

    Raises:
        SynthesisError: when Yosys is not installed, or does not take the design.
    """
    target, entry = folder / FOLDER, entry_of(bus)
    target.mkdir()
    plain_verilog(folder, target / f"{entry.module}.v", entry)
    if bus is not None and not bus.kind.has_streams:
        return
    inputs, outputs = (tuple(vectors(folder, summary, bus, end)) for end in ("input", "output"))
    for item in (*inputs, *outputs):
        (target / f"{item.stream.name}.mem").write_text(_hexadecimal(item.bits))
    for item in outputs:
        (target / f"{item.stream.name}_mask.mem").write_text(_hexadecimal(item.mask))
    template = template_environment().get_template("testbench.v.j2")
    text = template.render(
        module=entry.module,
        bus=bus,
        inputs=[item.stream for item in inputs],
        outputs=[item.stream for item in outputs],
        limit=1000 * (summary.latency_cycles + 20 * summary.interval_cycles),
    )
    (target / "testbench.v").write_text(text)


def vectors(folder: Path, summary: DesignSummary, bus: Bus | None, end: str) -> Iterator[Vectors]:
    """Yield the vectors of the testbench's inferences, of each `input` or `output`."""
    streams = summary.inputs if end == "input" else summary.outputs
    kind = "input" if end == "input" else "expected"
    with np.load(folder / "sim" / "vectors.npz") as arrays:
        for number, stream in enumerate(streams):
            beats = arrays[f"{kind}.{stream.name}"]
            layout = StreamLayout(stream)
            mask = layout.mask()
            repeated = np.tile(mask, (len(beats) // len(mask), 1))
            found, counts = layout.bits(beats), layout.bits(repeated)
            if bus is None:
                ports = (f"{stream.name}_valid", f"{stream.name}_ready")
                port = TestStream(stream.name, signals(stream), *ports, len(found))
                yield Vectors(port, found, counts)
            else:
                packet = (bus.inputs if end == "input" else bus.outputs)[number]
                prefix = f"{'s' if end == 'input' else 'm'}_axis_{number}_t"
                yield _of_packet(packet, prefix, found, counts)


def _of_packet(packet: Packet, prefix: str, bits: Octets, mask: Octets) -> Vectors:
    """Return words of a bus: data, then which bytes count, then whether it is the last."""
    beats, width = packet.stream.spec.beats, 8 * packet.bus_bytes

    def words(rows: Octets) -> Octets:
        whole = np.pad(rows, ((0, 0), (0, 8 * packet.beat_bytes - rows.shape[1])))
        packets = whole.reshape(-1, beats * whole.shape[1])
        spare = packet.words * width - packets.shape[1]
        return np.pad(packets, ((0, 0), (0, spare))).reshape(-1, width)

    kept = np.zeros((packet.words, packet.bus_bytes), np.uint8)
    kept.reshape(-1)[: packet.bytes] = 1
    last = np.zeros((packet.words, 1), np.uint8)
    last[-1] = 1
    count = len(bits) // beats
    marks = np.tile(np.concatenate([kept, last], axis=1), (count, 1))
    high = width + packet.bus_bytes
    slices = ((f"{prefix}data", width - 1, 0), (f"{prefix}keep", high - 1, width))
    ports = TestStream(
        packet.stream.name,
        (*slices, (f"{prefix}last", high, high)),
        f"{prefix}valid",
        f"{prefix}ready",
        count * packet.words,
    )
    return Vectors(
        ports,
        np.concatenate([words(bits), marks], axis=1),
        np.concatenate([words(mask), np.ones_like(marks)], axis=1),
    )


def _hexadecimal(bits: Octets) -> str:
    """Return a memory image, one word a line."""
    digits = -(-bits.shape[1] // 4)
    packed = np.packbits(
        np.pad(bits, ((0, 0), (0, 4 * digits - bits.shape[1]))), axis=1, bitorder="little"
    )
    lines = [f"{int.from_bytes(row.tobytes(), 'little'):0{digits}x}" for row in packed]
    return "".join(f"{line}\n" for line in lines)
