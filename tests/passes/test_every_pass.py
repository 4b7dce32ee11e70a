"""Every pass, on graphs of each stage of the flow. Nobody edits this file to add a pass."""

import re
from importlib import import_module
from inspect import signature

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw import passes
from mase_hw.emit.flow import canonicalize, quantize, to_hardware
from mase_hw.errors import CaptureError, ConfigError, MaseError
from mase_hw.formats import make_format
from mase_hw.graph import metadata, trace
from mase_hw.passes._elsewhere import ELSEWHERE
from mase_hw.passes.compression.prune import prune_transform_pass
from mase_hw.passes.hardware.hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.hardware.parallelism import Group
from mase_hw.registry import modules
from tests._readme import ROOT

PASSES = {
    name: member
    for module in modules("mase_hw.passes")
    for name, member in vars(import_module(module)).items()
    if name.endswith("_pass") and member.__module__ == module
}
X = torch.linspace(-1, 1, 48).reshape(8, 6)
FIELDS = {"width": 8, "frac_width": 4}
# What some passes cannot do without.
ARGUMENTS = {"sparsity": 0.5, "data": [X[:4]], "rank": 2, "strength": 0.5}


@pytest.fixture(scope="module")
def stages():
    """A graph as it is captured, with formats, with loops, as hardware; with adapters at last."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(3)]
    captured = mase_hw.trace(nn.Sequential(*layers), X)
    canonical = canonicalize(captured)
    adapted = PASSES["insert_lora_adapter_transform_pass"](canonical.copy(), rank=2)[0]
    operands = ("data_in", "weight", "bias", "data_out")
    entry = {f"{name}_{key}": value for name in operands for key, value in FIELDS.items()}
    quantized = quantize(captured, {"default": {"config": {"name": "fixed", **entry}}})
    loops = quantize(captured, reuse=True)
    return [captured, canonical, quantized, loops, to_hardware(quantized), adapted]


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_takes_graphs_of_its_stages_and_refuses_others(name, stages):
    """What it gives computes a tensor of the same shape."""
    chosen = {key: ARGUMENTS[key] for key in signature(PASSES[name]).parameters if key in ARGUMENTS}
    shapes, reasons = [], []
    for stage in stages:
        if shapes and stage is stages[-1]:
            break
        try:
            changed, info = PASSES[name](stage.copy(), **chosen)
        except MaseError as error:
            reasons.append(str(error))
            continue
        assert isinstance(info, dict)
        shapes.append(changed(X).shape)
    assert set(shapes) <= {X.shape}
    assert shapes or all("give" in reason for reason in reasons), reasons


@pytest.mark.parametrize("name", [n for n, item in PASSES.items() if hasattr(item, "__wrapped__")])
def test_a_pass_refuses_an_argument_that_it_does_not_have(name, stages):
    with pytest.raises(MaseError, match="no_such_argument"):
        PASSES[name](stages[2].copy(), {"no_such_argument": 1})


def graph():
    torch.manual_seed(0)
    return mase_hw.trace(nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.ReLU()), torch.randn(2, 8))


def test_pruning_takes_other_words_for_its_criterion():
    mg = graph()
    left, _ = prune_transform_pass(mg, {"sparsity": 0.5, "method": "l1-norm"})
    right, _ = prune_transform_pass(mg, {"sparsity": 0.5, "criterion": "l1"})
    assert torch.equal(left.state_dict()["0.weight"], right.state_dict()["0.weight"])
    with pytest.raises(ConfigError, match="prune_activations_transform_pass"):
        prune_transform_pass(mg, {"activation": {"sparsity": 0.1}})
    with pytest.raises(ConfigError, match="criterion is 'l3'"):
        prune_transform_pass(mg, {"sparsity": 0.5, "method": "l3-norm"})


def test_a_graph_of_a_module_says_how_it_is_captured():
    with pytest.raises(CaptureError, match=r'trace\(model, \{"input_ids": \.\.\.\}\)'):
        mase_hw.MaseGraph(nn.Linear(2, 2), hf_input_names=["input_ids"])
    with pytest.raises(CaptureError, match="Linear, not a captured graph"):
        mase_hw.MaseGraph(nn.Linear(2, 2))


def test_passes_are_imported_from_their_package():
    assert passes.prune_transform_pass is prune_transform_pass
    mg, _ = passes.add_common_metadata_analysis_pass(passes.init_metadata_analysis_pass(graph())[0])
    mg, info = passes.remove_identity_transform_pass(mg)
    assert len(info["removed"]) == 1  # the dropout
    with pytest.raises(ImportError):
        from mase_hw.passes import no_such_pass  # noqa: F401


def test_passes_of_other_flows_are_refused_with_the_line_to_write():
    rows = (ROOT / "mase_hw" / "passes" / "README.md").read_text().splitlines()
    for name, line in ELSEWHERE.items():
        with pytest.raises(ConfigError, match=re.escape(line)):
            getattr(passes, name)
        for word in re.findall(r"(\w+_pass)\(", line):
            assert callable(getattr(passes, word))
        (row,) = [row for row in rows if f"`{name}`" in row]
        assert row.rsplit("|", 2)[1].replace("`", "").strip() == line


def test_arguments_of_other_flows_work_or_say_what_to_write():
    mg, _ = passes.init_metadata_analysis_pass(graph(), None)
    with pytest.raises(ConfigError, match="leave it out"):
        passes.add_common_metadata_analysis_pass(mg, pass_args={"dummy_in": {}})
    mg, _ = passes.add_common_metadata_analysis_pass(mg, pass_args={})
    pruned, _ = prune_transform_pass(mg, pass_args={"sparsity": 0.5, "scope": "local"})
    assert float((pruned.state_dict()["0.weight"] == 0).float().mean()) == 0.5


@pytest.mark.parametrize(("memory", "place"), [("on-chip", "BRAM"), ("external", "AXI")])
def test_constants_lie_where_the_configuration_says(memory, place):
    mg = quantize(trace(nn.Linear(4, 3), torch.randn(8, 4)), None)
    mg, _ = add_hardware_metadata_analysis_pass(mg, {"memory": memory})
    (node,) = [node for node in mg.nodes if node.op == "call_function"]
    known = metadata(node).hardware
    assert known.interface["weight"] == place
    assert known.outside == (("weight",) if place == "AXI" else ())
    assert bool(known.memory) == (place == "AXI")


def group(size, *formats, fixed=None):
    return Group([("x", "data_in_0", 0)], size, list(formats), fixed)


def test_every_size_of_a_tile_is_tried():
    """The smallest one of each number of tiles."""
    assert group(1).candidates() == [1]
    assert group(6).candidates() == [1, 2, 3, 6]
    assert group(10).candidates() == [1, 2, 3, 4, 5, 10]
    assert group(10, fixed=7).candidates() == [7]


def test_a_format_of_blocks_is_tried_at_all_sizes_that_fit():
    """A beat lies in one block."""
    twelve = make_format({"name": "mxint", "block_size": 12})
    assert group(24, twelve).candidates() == [1, 2, 3, 4, 6, 12]
    assert group(24, twelve).at_most(11) == 6
    eight = make_format({"name": "mxint", "block_size": 8})
    assert group(24, twelve, eight).candidates() == [1, 2, 4]
