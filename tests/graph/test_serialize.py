"""Saved graphs: equal after loading, the same bytes, clear refusals."""

import json
import tempfile
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mase_hw.errors import CaptureError, DataError, MaseError
from mase_hw.formats import make_format
from mase_hw.graph import HardwareMetadata, MaseGraph, common, load_pt2, metadata, trace, update
from mase_hw.graph.encoding import decode_argument, decode_target, encode_argument
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass

SIZE = 6
LAYERS = {
    "linear": lambda: nn.Linear(SIZE, SIZE),
    "no_bias": lambda: nn.Linear(SIZE, SIZE, bias=False),
    "norm": lambda: nn.BatchNorm1d(SIZE),
    "relu": nn.ReLU,
    "leaky": lambda: nn.LeakyReLU(0.3),
    "hardtanh": lambda: nn.Hardtanh(-float("inf"), 2.0),
    "dropout": nn.Dropout,
    "fold": lambda: nn.Unflatten(1, (2, 3)),
    "flat": nn.Flatten,
    "softmax": lambda: nn.Softmax(-1),
}


def annotated(mg):
    add_common_metadata_analysis_pass(mg)
    add_software_metadata_analysis_pass(mg)
    for node in mg.nodes:
        known = common(node)
        results = {
            name: spec.with_format(make_format({"name": "fixed", "width": 9, "frac_width": 5}))
            for name, spec in known.results.items()
        }
        update(node, common=type(known)(known.operator, known.operands, results))
        hardware = HardwareMetadata(
            "mase_x", {"A": 1, "B": "text"}, "INTERNAL_RTL", ("a.sv",), {}, 3, 4
        )
        update(node, hardware=hardware)
    return mg


def assert_equal_graphs(left, right):
    assert (left.name, left.batched) == (right.name, right.batched)
    for ours, theirs in zip(left.nodes, right.nodes, strict=True):
        assert (ours.name, ours.op, str(ours.target)) == (
            theirs.name,
            theirs.op,
            str(theirs.target),
        )
        assert str(ours.args) == str(theirs.args)
        assert str(ours.kwargs) == str(theirs.kwargs)
        assert metadata(ours) == metadata(theirs)
    for (name, value), (other_name, other) in zip(
        sorted(left.model.state_dict().items()),
        sorted(right.model.state_dict().items()),
        strict=True,
    ):
        assert name == other_name
        assert torch.equal(value, other)
    assert {n for n, _ in left.model.named_parameters()} == {
        n for n, _ in right.model.named_parameters()
    }


@settings(max_examples=12, deadline=None)
@given(names=st.lists(st.sampled_from(["linear", "no_bias", "norm", "relu", "leaky", "hardtanh",
                                       "dropout", "softmax"]), min_size=1, max_size=4),
       seed=st.integers(0, 1000))  # fmt: skip
def test_any_sequence_of_layers_comes_back_equal(names, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(*(LAYERS[name]() for name in names), nn.Unflatten(1, (2, 3)))
    mg = annotated(trace(model, torch.randn(2, SIZE)))
    with tempfile.TemporaryDirectory() as folder:
        first = mg.save(Path(folder) / "a.mase")
        loaded = MaseGraph.load(first)
        assert_equal_graphs(mg, loaded)
        assert loaded.save(Path(folder) / "b.mase").read_bytes() == first.read_bytes()
    x = torch.randn(3, SIZE)
    assert torch.equal(mg(x), loaded(x))
    assert torch.equal(mg.example_inputs[0], loaded.example_inputs[0])


def test_loaded_parameters_train_and_tied_weights_stay_tied(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4))
    model[2].weight.requires_grad_(False)
    mg = trace(model, torch.randn(2, 4))
    mg.model.get_submodule("1").weight = mg.model.get_parameter("0.weight")
    loaded = MaseGraph.load(mg.save(tmp_path / "tied.mase"))
    loaded(torch.randn(3, 4)).square().sum().backward()
    assert loaded.model.get_parameter("0.weight") is loaded.model.get_parameter("1.weight")
    assert loaded.model.get_parameter("0.weight").grad is not None
    assert loaded.model.get_parameter("2.weight").grad is None
    assert [name for name, _ in loaded.model.named_buffers()] == ["3.running_mean", "3.running_var"]


def test_large_example_inputs_are_remembered_by_shape(tmp_path):
    mg = trace(nn.ReLU(), torch.randn(2, 1 << 18))
    path = mg.save(tmp_path / "large.mase")
    assert path.stat().st_size < 1 << 16
    assert MaseGraph.load(path).example_inputs[0].shape == (2, 1 << 18)


def test_arguments_of_every_kind_come_back():
    arguments = (
        None, True, 3, -0.0, float("inf"), float("-inf"), 0.1, "text", torch.float16, torch.strided,
        torch.channels_last, torch.device("cpu"), [1, [2.5, None]], (1, (2,)), {"a": [1]},
        slice(None, 3, None),
    )  # fmt: skip
    text = json.dumps(encode_argument(arguments))
    found = decode_argument(json.loads(text), {})
    assert repr(found) == repr(arguments)
    assert repr(decode_argument(encode_argument(float("nan")), {})) == "nan"
    with pytest.raises(MaseError, match="type object cannot be saved"):
        encode_argument(object())


def test_custom_operators_resolve():
    library = torch.library.Library("mase_test", "FRAGMENT")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
    assert decode_target("call_function", "mase_test.double.default") is (
        torch.ops.mase_test.double.default
    )
    with pytest.raises(MaseError, match="not registered with torch"):
        decode_target("call_function", "mase_test.triple.default")


def test_a_file_of_a_newer_release_is_refused(tmp_path):
    path = tmp_path / "newer.mase"
    safetensors.torch.save_file(
        {"a": torch.zeros(1)}, path, {"mase_graph": json.dumps({"version": 99})}
    )
    with pytest.raises(DataError, match="version 99; this release reads version 1"):
        MaseGraph.load(path)


@pytest.mark.parametrize("name", ["li4ear", "", 3, ["linear"]])
def test_files_with_an_operator_that_there_is_not_are_refused(name, tmp_path):
    path = tmp_path / "graph.mase"
    annotated(trace(nn.Linear(4, 3), torch.randn(2, 4))).save(path)
    with safetensors.safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        text = file.metadata()["mase_graph"]
    assert text.count('"operator": "linear"') == 1
    changed = text.replace('"operator": "linear"', f'"operator": {json.dumps(name)}')
    safetensors.torch.save_file(tensors, path, {"mase_graph": changed})
    with pytest.raises(DataError, match="operator"):
        MaseGraph.load(path)


def test_exported_programs_load(tmp_path):
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    x = torch.randn(2, 4)
    dynamic = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(dynamic, tmp_path / "digits mlp.pt2")
    mg = load_pt2(tmp_path / "digits mlp.pt2")
    assert mg.name == "digits_mlp"
    assert mg.batched
    assert torch.equal(mg(torch.ones(5, 4)), model(torch.ones(5, 4)))
    assert [node.name for node in mg.nodes if node.op == "call_function"] == ["linear_0", "relu_1"]
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "fixed.pt2")
    fixed = load_pt2(tmp_path / "fixed.pt2", name="other")
    assert (fixed.name, fixed.batched) == ("other", False)
    assert torch.equal(fixed.example_inputs[0], x)


class Named(nn.Module):
    """A layer under a name that is given."""

    def __init__(self, name):
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(SIZE, 2)})

    def forward(self, data):
        return next(iter(self.layers.values()))(data)


@pytest.mark.parametrize("name", ["block1-0", "a b", "a'b", "a{b}", "ü", "a;import os"])
def test_names_that_are_no_identifiers_survive(name, tmp_path):
    mg = trace(Named(name), torch.randn(2, SIZE))
    mg.save(tmp_path / "named.mase")
    loaded = MaseGraph.load(tmp_path / "named.mase")
    data = torch.randn(3, SIZE)
    assert torch.equal(loaded(data), mg(data))
    assert f"layers.{name}.weight" in dict(loaded.named_parameters())


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_names_that_end_a_quotation_are_refused(name):
    with pytest.raises(CaptureError, match="without quotation marks") as caught:
        trace(Named(name), torch.randn(2, SIZE))
    assert "\n" not in str(caught.value)
