"""Weights from files: graphs and checkpoints find their way into a captured model."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import mase_hw
from mase_hw.errors import DataError
from mase_hw.graph import MaseGraph, trace
from mase_hw.graph.weights import load_weights
from mase_hw.training import Trainer


def module(seed=0, hidden=8):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, hidden), nn.BatchNorm1d(hidden), nn.Linear(hidden, 3))


def graph(seed=0, hidden=8):
    return trace(module(seed, hidden), torch.ones(4, 6), name="net")


INPUTS = torch.randn(10, 6, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".safetensors"])
def test_a_checkpoint_gives_the_weights(tmp_path, suffix):
    other = module(seed=5).eval()
    path = tmp_path / f"state{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(other.state_dict(), path)
    given = graph()
    before = given(INPUTS)
    assert torch.equal(load_weights(given, path)(INPUTS), other(INPUTS))
    assert torch.equal(given(INPUTS), before)


def test_a_checkpoint_of_training_gives_the_weights(tmp_path):
    mg = mase_hw.quantize(graph())
    path = tmp_path / "state.pt"
    labels = torch.arange(10) % 3
    Trainer(epochs=2, checkpoint=path).fit(mg, INPUTS, labels)
    again = load_weights(mase_hw.quantize(graph()), path)
    assert torch.equal(again(INPUTS), mg(INPUTS))


def test_a_graph_takes_the_place_of_the_model(tmp_path):
    smaller = graph(seed=2, hidden=4)
    found = load_weights(graph(), smaller.save(tmp_path / "small.mase"))
    assert torch.equal(found(INPUTS), smaller(INPUTS))


def test_an_emitted_graph_is_emitted_again(tmp_path):
    first = mase_hw.emit_verilog(graph(), output=tmp_path / "first", parallelism={"default": 3})
    saved = MaseGraph.load(tmp_path / "first" / "model.mase")
    second = mase_hw.emit_verilog(saved, output=tmp_path / "second", parallelism={"default": 3})
    assert [item.name for item in first.design.instances] == [
        item.name for item in second.design.instances
    ]
    assert (tmp_path / "first/top.sv").read_bytes() == (tmp_path / "second/top.sv").read_bytes()


def test_files_that_do_not_fit_are_refused(tmp_path):
    state = module().state_dict()
    cases = {
        "missing.pt": ({k: v for k, v in state.items() if k != "2.bias"}, "2.bias is missing"),
        "shape.pt": (state | {"2.weight": torch.ones(3, 9)}, r"\[3, 9\], the model's \[3, 8\]"),
        "more.pt": (state | {"3.weight": torch.ones(2)}, "the model has no 3.weight"),
        "list.pt": ([1, 2], "holds no tensors by name"),
    }
    for name, (content, message) in cases.items():
        torch.save(content, tmp_path / name)
        with pytest.raises(DataError, match=message):
            load_weights(graph(), tmp_path / name)
    (tmp_path / "text.pt").write_text("no weights")
    with pytest.raises(DataError, match="cannot be read as a checkpoint"):
        load_weights(graph(), tmp_path / "text.pt")
    with pytest.raises(DataError, match="do not exist"):
        load_weights(graph(), tmp_path / "none.mase")
    with pytest.raises(DataError, match=r"allowed: \.mase, \.safetensors"):
        load_weights(graph(), tmp_path / "weights.onnx")
    other = trace(nn.Linear(7, 3), torch.ones(4, 7)).save(tmp_path / "other.mase")
    with pytest.raises(DataError, match=r"graph of the inputs .*7.* takes .*6"):
        load_weights(graph(), other)
