"""The emitted driver packs as the simulation does, in Python and in C, and refuses the rest."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mase_hw.deploy.bus import BusOptions
from mase_hw.deploy.driver import DriverError, Model, WrongDesignError
from mase_hw.emit.design import DesignSummary
from mase_hw.sim.layout import StreamLayout
from tests.deploy.designs import design_hash, emit, vectors
from tests.deploy.simulation import compiled

DESIGNS = {
    "perceptron": (BusOptions("axi-stream", 32), {}),
    "convolution": (BusOptions("axi-stream"), {"parallelism": 2}),
    "mxint": (BusOptions("axi-stream", 64), {}),
    "transformer": (BusOptions("uart"), {"parallelism": 2}),
    "pair": (BusOptions("axi-stream", 16), {"parallelism": 3}),
}

MAIN = """
#include <stdio.h>
#include "mase_driver.h"
#define RUN(port, name) \\
  for (int64_t n = 0; n < count; ++n) { \\
    int64_t codes[name##_ELEMENTS], back[name##_ELEMENTS]; \\
    uint8_t packet[name##_BYTES]; \\
    for (int i = 0; i < name##_ELEMENTS; ++i) \\
      if (fread(&codes[i], 8, 1, stdin) != 1) return 2; \\
    if (mase_pack(&port, codes, packet)) return 3; \\
    fwrite(packet, 1, sizeof packet, stdout); \\
    mase_unpack(&port, packet, back); \\
    if (memcmp(codes, back, sizeof codes)) return 4; \\
    codes[0] = port.maximum + 1; \\
    if (mase_pack(&port, codes, packet) != 1) return 5; \\
  }
int main(void) {
  int64_t count;
  if (fread(&count, 8, 1, stdin) != 1) return 1;
  CALLS
#ifdef MASE_FRAME_BYTES
  uint8_t frame[MASE_FRAME_BYTES + 3];
  size_t size = mase_request(2, 5, (const uint8_t *)"abc", 3, frame);
  fwrite(frame, 1, size, stdout);
  memcpy(frame, "mh", 2);
  frame[2] = 0;
  mase_number(frame + size - 4, mase_crc32(frame, size - 4), 4);
  if (mase_status(frame, size)) return 6;
  frame[17] ^= 1;
  if (mase_status(frame, size) != -1) return 7;
#endif
  return 0;
}
"""


class Nothing:
    """A device that holds a design and does nothing."""

    def __init__(self, held: int) -> None:
        self.held = held

    def identify(self) -> int:
        return self.held

    def connect(self, inputs: Any, outputs: Any) -> None:
        pass

    def reset(self) -> None:
        raise NotImplementedError

    def run(self, inputs: Any, outputs: Any) -> list[np.ndarray]:
        return [port.words_of(np.zeros((len(inputs[0]), port.bytes), np.uint8)) for port in outputs]


def model_of(project: Path) -> Model:
    return Model(Nothing(design_hash(project)), project)


@pytest.mark.parametrize("name", DESIGNS)
def test_packets_hold_the_beats_of_the_simulation(name: str, tmp_path: Path) -> None:
    bus, options = DESIGNS[name]
    project = emit(name, tmp_path / "net", bus, **options).folder
    inputs, outputs = vectors(project, 7)
    summary, model = DesignSummary.load(project), model_of(project)
    everything = [*zip(summary.inputs, model.inputs, inputs, strict=True)]
    everything += zip(summary.outputs, model.outputs, outputs, strict=True)
    for stream, port, codes in everything:
        packets = port.pack(codes)
        shaped = torch.from_numpy(codes).reshape(-1, *stream.spec.shape)
        beats = StreamLayout(stream).pack(shaped)
        start, bits = 0, []
        for item in StreamLayout(stream).fields:
            count = item.lanes * item.width_bits
            raw = np.unpackbits(beats[:, start : start + item.bytes], axis=1, bitorder="little")
            bits.append(raw[:, :count])
            start += item.bytes
        wanted = np.packbits(np.concatenate(bits, axis=1), axis=1, bitorder="little")
        found = packets.reshape(len(wanted), -1)[:, : wanted.shape[1]]
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(port.unpack(packets), codes.reshape(-1, *port.item_shape))


@pytest.mark.parametrize("name", DESIGNS)
def test_the_c_header_packs_the_same(name: str, tmp_path: Path) -> None:
    bus, options = DESIGNS[name]
    project = emit(name, tmp_path / "net", bus, **options).folder
    inputs, outputs = vectors(project, 5)
    model = model_of(project)
    ports = [*zip(model.inputs, inputs, strict=True), *zip(model.outputs, outputs, strict=True)]
    calls = "\n".join(f"RUN(mase_{port.name}, MASE_{port.name.upper()})" for port, _ in ports)
    program = compiled(MAIN.replace("CALLS", calls), project, tmp_path)
    given = np.int64(5).tobytes() + b"".join(codes.astype(np.int64).tobytes() for _, codes in ports)
    result = subprocess.run([str(program)], input=given, capture_output=True, check=False)
    assert result.returncode == 0
    wanted = b"".join(port.pack(codes).tobytes() for port, codes in ports)
    assert result.stdout[: len(wanted)] == wanted
    from mase_hw.deploy.driver import frames

    framed = frames.request(2, 5, model.hash, b"abc") if bus.name == "uart" else b""
    assert result.stdout[len(wanted) :] == framed


def test_what_is_wrong_is_refused(tmp_path: Path) -> None:
    project = emit("perceptron", tmp_path / "net", BusOptions("axi-stream", 32)).folder
    model = model_of(project)
    port = model.inputs[0]
    for wrong, told in (
        (np.zeros((2, 6)), "takes integer codes, not float64; encode"),
        (np.zeros((2, 5), int), r"has the shape \[2, 5\]; allowed: \[1, 6\], or \[N, 6\]"),
        (np.zeros(6, int), r"has the shape \[6\]"),
        (np.full((1, 6), 128), "has the code 128; its format has codes from -128 to 127"),
        (np.full((1, 6), -129), "has the code -129"),
        (np.array([[-128, 0, 0, 0, 0, 128]]), "has the code 128"),
        (np.zeros((1, 6), bool), "takes integer codes, not bool"),
    ):
        with pytest.raises(DriverError, match=told):
            model(wrong)
    with pytest.raises(DriverError, match="2 inputs were given; the design has data_in_0"):
        model(np.zeros((1, 6), int), np.zeros((1, 6), int))
    with pytest.raises(WrongDesignError, match="the device holds the design 0000000000000001"):
        Model(Nothing(1), project)
    with pytest.raises(DriverError, match="no finite number"):
        model.encode(np.full((1, 6), np.nan))
    with pytest.raises(ValueError, match="shorter"):
        model.encode()
    np.testing.assert_array_equal(
        port.encode(port.decode(np.arange(-128, 128))), np.arange(-128, 128)
    )
    steps = np.array([0.5, 1.5, -0.5, 2.6, -2.6, 1e9])
    assert port.encode(steps * port.step).tolist() == [0, 2, 0, 3, -3, 127]
    assert model(np.zeros((0, 6), int)).shape == (0, 3)


def test_elements_of_a_block_share_their_scale(tmp_path: Path) -> None:
    project = emit("mxint", tmp_path / "net", BusOptions("axi-stream", 64)).folder
    model = model_of(project)
    codes = vectors(project, 1)[0][0].copy()
    codes[0, 0] ^= 1 << 9
    with pytest.raises(DriverError, match="different scales"):
        model(codes)
