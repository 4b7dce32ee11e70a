"""Weights that are loaded at run time: equal to a design emitted with them, or refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.deploy.bus import BusOptions
from mase_hw.deploy.weights import pack_weights
from mase_hw.emit.design import DesignSummary
from mase_hw.emit.project import load_graph
from mase_hw.errors import ConfigError, DataError, EmissionError
from mase_hw.graph.reference import IntegerReference
from mase_hw.graph.weights import with_tensors
from tests.deploy.designs import FACTORIES, emit
from tests.deploy.simulation import run_tests

BUS = BusOptions("axi-stream", 32)


def checkpoint(model: nn.Module, path: Path, change: Any) -> Path:
    """Write a checkpoint of a changed model."""
    state = {name: change(value.clone()) for name, value in model.state_dict().items()}
    torch.save(state, path)
    return path


def outputs(project: Path, weights: Path | None, inputs: torch.Tensor) -> np.ndarray:
    mg, summary = load_graph(project)
    mg = mg if weights is None else with_tensors(mg, weights)
    found = IntegerReference(mg)([inputs])[summary.outputs[0].node]
    return found.reshape(len(inputs), -1).numpy()


def loads(name: str, project: Path, folder: Path) -> dict[str, str]:
    """Return the environment of tests that load weights: images, and results with each."""
    model, _ = FACTORIES[name]()
    shuffled = checkpoint(model, folder / "b.pt", lambda value: value.flip(0) * 0.7)
    extreme = checkpoint(model, folder / "c.pt", lambda value: torch.full_like(value, value.min()))
    files = [checkpoint(model, folder / "a.pt", lambda value: value), shuffled, extreme]
    summary = DesignSummary.load(project)
    spec = summary.inputs[0].spec
    generator = torch.Generator().manual_seed(3)
    inputs = spec.quantized.random_codes((8, *spec.shape), generator)
    images = []
    for number, path in enumerate(files):
        images.append(folder / f"{number}.bin")
        images[-1].write_bytes(pack_weights(project, path))
    expected = {f"out{n}": outputs(project, path, inputs) for n, path in enumerate(files)}
    assert (expected["out0"] != expected["out1"]).any(axis=1).all()
    np.savez(folder / "vectors.npz", in0=inputs[:, 0].numpy(), **expected)
    return {"BUS_VECTORS": str(folder / "vectors.npz"), "BUS_IMAGES": ":".join(map(str, images))}


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "options"), [("perceptron", {}), ("convolution", {"parallelism": 2})]
)
def test_loaded_weights_are_those_of_another_emission(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("cocotbext.axi")
    project = emit(name, tmp_path / "net", BUS, reload=["*"], **options).folder
    assert run_tests(project, "loading_cocotb", loads(name, project, tmp_path)) == 4


def test_headroom_takes_weights_that_are_larger(tmp_path: Path) -> None:
    """Weights four times as large fit with two bits more, and the hardware has room for them."""
    model, _ = FACTORIES["perceptron"]()
    larger = checkpoint(model, tmp_path / "larger.pt", lambda value: 4 * value)
    plain = emit("perceptron", tmp_path / "plain", BUS, reload=["*"]).folder
    with pytest.raises(DataError, match="lie beyond fixed<8,6>"):
        pack_weights(plain, larger)
    project = emit("perceptron", tmp_path / "net", BUS, reload=["*"], reload_headroom=2)
    assert len(pack_weights(project.folder, larger)) == 16 + 108
    assert mase_hw.simulate(project, samples=20).bit_exact
    only = emit("perceptron", tmp_path / "one", BUS, reload=["linear_2"], reload_headroom=3)
    widths = {
        (node.name, name): spec.format.width
        for node in only.mg.nodes
        if node.op == "call_function"
        for name, spec in only.mg.call(node).operands.items()
    }
    assert (widths["linear_0", "weight"], widths["linear_2", "weight"]) == (8, 11)


def test_pack_weights_refuses_what_does_not_fit(tmp_path: Path) -> None:
    model, _ = FACTORIES["perceptron"]()
    project = emit("perceptron", tmp_path / "net", BUS, reload=["linear_0"]).folder
    same = checkpoint(model, tmp_path / "same.pt", lambda value: value)
    assert len(pack_weights(project, same)) == 16 + 36
    for change, told in (
        (lambda value: value.repeat(2, *[1] * (value.dim() - 1)), r"0\.weight is \[10, 6\]"),
        (lambda value: value * 1000, "of weight of linear_0 .* lie beyond fixed"),
    ):
        with pytest.raises(DataError, match=told):
            pack_weights(project, checkpoint(model, tmp_path / "wrong.pt", change))
    torch.save({"0.weight": model.state_dict()["0.weight"]}, tmp_path / "few.pt")
    with pytest.raises(DataError, match=r"0\.bias is missing"):
        pack_weights(project, tmp_path / "few.pt")
    state = model.state_dict()
    torch.save({**state, "2.weight": state["2.weight"].flip(0)}, tmp_path / "other.pt")
    with pytest.raises(
        DataError, match="changes the constants of linear_2, which cannot be loaded"
    ):
        pack_weights(project, tmp_path / "other.pt")
    plain = emit("perceptron", tmp_path / "plain", BUS).folder
    with pytest.raises(ConfigError, match="emit it with --reload and --bus"):
        pack_weights(plain, same)
    with pytest.raises(EmissionError, match=r"linear_7 has no weights .* did you mean"):
        emit("perceptron", tmp_path / "none", BUS, reload=["linear_7"])
    with pytest.raises(EmissionError, match="in blocks, which cannot be loaded"):
        emit("mxint", tmp_path / "none", BUS, reload=["*"])
    with pytest.raises(ConfigError, match="through the registers of --bus axi-stream"):
        emit("perceptron", tmp_path / "none", BusOptions("uart"), reload=["*"])
    assert not (tmp_path / "none").exists()


def test_a_design_that_can_be_loaded_is_simulated_as_any(tmp_path: Path) -> None:
    project = emit("convolution", tmp_path / "net", BUS, reload=["*"], parallelism=2)
    report = mase_hw.simulate(project, samples=20)
    assert report.bit_exact and report.as_predicted
