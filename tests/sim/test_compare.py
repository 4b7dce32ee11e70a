"""Layers in three models: values are those of each, and a fault is found in its layer."""

import shutil

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import SimulationError
from mase_hw.graph.quantized import GraphRun

LAYERS = 10


def model():
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(6, 6), nn.Tanh())]
    with torch.no_grad():
        for layer in layers[::2]:
            layer.weight.mul_(2)
    return nn.Sequential(*layers).eval()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare") / "net"
    inputs = torch.randn(16, 6, generator=torch.Generator().manual_seed(1))
    return mase_hw.emit_verilog(model(), inputs, output=folder, parallelism=2)


def test_values_are_those_of_each_model(project, tmp_path):
    net, inputs = model(), torch.randn(5, 6)
    found = mase_hw.compare(net, project, inputs, stall=0.2)
    assert found.is_exact
    assert found.first_wrong is None
    assert found.inferences == 5
    assert found.model_error == 0
    with torch.no_grad():
        float_values = [layer(inputs) for layer in [net[:1], net[:2], net]]
        quantized = GraphRun(project.mg).values([inputs])
    for name, exact in zip(("linear_0", "tanh_1", "tanh_19"), float_values, strict=True):
        layer = found.layers[name]
        assert torch.equal(layer.exact.reshape(5, 6), exact.double())
        assert torch.equal(layer.quantized.reshape(5, 6), quantized[name].double())
        assert torch.equal(layer.hardware, layer.quantized)
        assert 10 < layer.tensor_db < 60
    found.save(tmp_path / "values.npz")
    saved = np.load(tmp_path / "values.npz")
    assert {f"linear_0.{kind}" for kind in ("float", "quantized", "rtl")} <= set(saved)
    assert [path.suffix for path in found.figure(tmp_path / "losses")] == [".png", ".svg"]
    assert "tanh_19" in [str(cell) for cell in found.table().columns[0].cells]


@pytest.mark.first(2)
@pytest.mark.parametrize("operand", ["weight", "bias"])
@pytest.mark.parametrize("number", range(LAYERS))
def test_a_fault_is_found_in_its_layer(project, tmp_path, number, operand):
    folder = tmp_path / "net"
    shutil.copytree(project.folder, folder)
    (image,) = folder.glob(f"mem/linear_{2 * number}_{operand}_*.mem")
    words = image.read_text().split()
    # The sign of one element of every word.
    image.write_text("".join(f"{int(word, 16) ^ 0x80:0{len(word)}x}\n" for word in words))
    found = mase_hw.compare(None, folder)
    assert not found.is_exact
    assert found.first_wrong.node == f"linear_{2 * number}"
    assert found.first_wrong.first.expected != found.first_wrong.first.got


@pytest.mark.full
@pytest.mark.parametrize("count", [3, 5])
def test_a_model_that_takes_time_first_is_compared_with_itself(tmp_path, count):
    torch.manual_seed(0)
    net = nn.GRU(3, 4).eval()
    project = mase_hw.emit_verilog(net, torch.randn(4, 6, 3), output=tmp_path / "net")
    found = mase_hw.compare(net, project, torch.randn(4, count, 3))
    assert found.is_exact
    assert found.inferences == count
    assert found.model_error < 1e-5
    with torch.no_grad():
        net.weight_hh_l0.add_(1)
    assert mase_hw.compare(net, project).model_error > 0.1


def test_what_is_wrong_is_said(project):
    with pytest.raises(SimulationError, match="it is another model"):
        mase_hw.compare(nn.Linear(6, 5), project)
    with pytest.raises(SimulationError, match="does not run on the inputs"):
        mase_hw.compare(nn.Linear(5, 5), project)
    with pytest.raises(SimulationError, match="samples is 99; allowed: 1 to 16"):
        mase_hw.compare(None, project, samples=99)
    with pytest.raises(SimulationError, match="stall is 1"):
        mase_hw.compare(None, project, stall=1.0)
    other = model()
    with torch.no_grad():
        other[0].weight.add_(1)
    assert mase_hw.compare(other, project).model_error > 0.1
