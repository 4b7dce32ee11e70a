"""Designs whose inputs and results lie in a memory on AXI4."""

from pathlib import Path
from typing import Any

import pytest

from mase_hw.deploy.bus import BusOptions
from mase_hw.errors import ConfigError
from tests.deploy.designs import emit, vectors
from tests.deploy.simulation import build, run_cocotb, save_vectors

CASES: dict[str, tuple[str, BusOptions, dict[str, Any]]] = {
    "perceptron-32": ("perceptron", BusOptions("axi-memory", 32), {}),
    "convolution-64-own-clock": (
        "convolution",
        BusOptions("axi-memory", 64, True),
        {"parallelism": 2},
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.full
def test_results_come_into_the_memory(name: str, tmp_path: Path) -> None:
    pytest.importorskip("cocotbext.axi")
    design, bus, options = CASES[name]
    project = emit(design, tmp_path / "net", bus, **options).folder
    work = tmp_path / "build"
    work.mkdir()
    executable = build(project, "top_memory", project / "bus" / "files.f", work)
    environment = {
        "BUS_VECTORS": str(save_vectors(tmp_path / "vectors.npz", *vectors(project, 20))),
    }
    assert run_cocotb(executable, project, "tests.deploy.memory_cocotb", environment) == 3


def test_several_streams_have_no_place_in_a_memory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this one has 2 and 2: take --bus axi-stream"):
        emit("pair", tmp_path / "net", BusOptions("axi-memory"), parallelism=3)
    with pytest.raises(ConfigError, match="no words of 8 bits"):
        BusOptions("axi-memory", 8)


@pytest.mark.full
@pytest.mark.parametrize("own_clock", [False, True])
def test_weights_outside_come_through_the_bus(own_clock: bool, tmp_path: Path) -> None:
    pytest.importorskip("cocotbext.axi")
    bus = BusOptions("axi-stream", 32, own_clock)
    project = emit("perceptron", tmp_path / "net", bus, memory="external").folder
    work = tmp_path / "build"
    work.mkdir()
    executable = build(project, "top_axis", project / "bus" / "files.f", work)
    environment = {
        "BUS_VECTORS": str(save_vectors(tmp_path / "vectors.npz", *vectors(project, 20))),
    }
    assert run_cocotb(executable, project, "tests.deploy.external_cocotb", environment) == 2
