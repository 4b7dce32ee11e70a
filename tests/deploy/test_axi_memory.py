"""Designs whose inputs and results lie in a memory on AXI4."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mase_hw.deploy.bus import BusOptions
from mase_hw.errors import ConfigError
from tests.deploy.designs import emit, vectors
from tests.deploy.simulation import EVERY, QUICK, compiled, run_tests, save_vectors

CASES: dict[str, tuple[str, BusOptions, dict[str, Any]]] = {
    "perceptron-32": ("perceptron", BusOptions("axi-memory", 32), {}),
    # Of results of several words, in bursts that a reset cuts.
    "wide-64-own-clock": ("wide", BusOptions("axi-memory", 64, True), {"parallelism": 6}),
}
GUARD = "perceptron-32"
# What a program makes of the C header.
LIBRARY = """
#include "mase_driver.h"
int identify(const mase_registers *device) { return mase_identify(device); }
int reset(const mase_registers *device) { return mase_reset(device, 1000); }
int start(const mase_registers *device, uint64_t input, uint64_t output, uint32_t count) {
  return mase_start(device, input, output, count);
}
int finish(const mase_registers *device, uint32_t tries) { return mase_finish(device, tries); }
const char *take_errors(const mase_registers *device, uint32_t *first_wrong) {
  return mase_error_name(mase_take_errors(device, first_wrong));
}
size_t pack(const int64_t *codes, uint8_t *packet) {
  return mase_pack(&mase_data_in_0, codes, packet);
}
void unpack(const uint8_t *packet, int64_t *codes) { mase_unpack(&mase_data_out_0, packet, codes); }
uint32_t strides(int is_output) { return is_output ? MASE_OUTPUT_STRIDE : MASE_INPUT_STRIDE; }
"""


def simulate(name: str, folder: Path, moments: int, names: Sequence[str] = ()) -> int:
    pytest.importorskip("cocotbext.axi")
    design, bus, options = CASES[name]
    project = emit(design, folder / "net", bus, **options).folder
    library = compiled(LIBRARY, project, folder, "-shared", "-fPIC")
    environment = {
        "BUS_VECTORS": str(save_vectors(folder / "vectors.npz", *vectors(project, 20))),
        "BUS_MOMENTS": str(moments),
        "BUS_LIBRARY": str(library),
    }
    return run_tests(project, "memory_cocotb", environment, names)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (name != GUARD)) for name in CASES]
)
def test_batches_end_whatever_disturbs_them(name: str, tmp_path: Path) -> None:
    assert simulate(name, tmp_path, QUICK) == 5


@pytest.mark.parametrize("name", CASES)
@pytest.mark.full
def test_a_reset_or_start_in_every_cycle_is_told(name: str, tmp_path: Path) -> None:
    assert simulate(name, tmp_path, EVERY, ["resets_and_starts"]) == 1


def test_several_streams_have_no_place_in_a_memory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this one has 2 and 2: take --bus axi-stream"):
        emit("pair", tmp_path / "net", BusOptions("axi-memory"), parallelism=3)
    with pytest.raises(ConfigError, match="no words of 8 bits; allowed: 32, 64"):
        BusOptions("axi-memory", 8)


@pytest.mark.full
@pytest.mark.parametrize("own_clock", [False, True])
def test_weights_outside_come_through_the_bus(own_clock: bool, tmp_path: Path) -> None:
    pytest.importorskip("cocotbext.axi")
    bus = BusOptions("axi-stream", 32, own_clock)
    project = emit("perceptron", tmp_path / "net", bus, memory="external").folder
    environment = {
        "BUS_VECTORS": str(save_vectors(tmp_path / "vectors.npz", *vectors(project, 20))),
        "BUS_MOMENTS": "40",
    }
    assert run_tests(project, "external_cocotb", environment) == 3
