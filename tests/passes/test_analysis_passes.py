"""Metadata, counting and verifying passes."""

import math

import pytest
import torch
from torch import nn

from mase_hw.errors import ConfigError, DataError, MaseError, UnsupportedError
from mase_hw.formats import make_format
from mase_hw.graph import common, metadata, trace, update
from mase_hw.ops import TensorSpec
from mase_hw.passes.canonical.common_metadata import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
)
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.count import (
    count_flops_analysis_pass,
    count_parameters_analysis_pass,
    report_operators_analysis_pass,
)
from mase_hw.passes.verify import verify_analysis_pass
from tests.modules import Layers


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor([1.0, 0.0, 2.0]))

    def forward(self, x):
        y = self.fc(x) * self.scale
        left, right = torch.split(torch.digamma(y), [1, 2], -1)
        return y + 0.5, torch.cat([right, left], -1)


@pytest.fixture
def mg():
    graph = trace(Net(), torch.randn(5, 4))
    return add_common_metadata_analysis_pass(graph)[0]


def test_init_keeps_only_the_origin(mg):
    before = {node.name: metadata(node) for node in mg.nodes}
    init_metadata_analysis_pass(mg)
    for node in mg.nodes:
        known = metadata(node)
        assert known.common is None
        assert (known.module_path, known.source) == (
            before[node.name].module_path,
            before[node.name].source,
        )
    assert metadata(mg.node("fc")).module_path == "fc"
    assert metadata(mg.node("fc")).source.code == "y = self.fc(x) * self.scale"


def test_common_metadata_is_of_one_inference(mg):
    known = common(mg.node("fc"))
    assert known.operator == "linear"
    assert known.operands == {
        "data_in_0": TensorSpec((1, 4)),
        "weight": TensorSpec((3, 4)),
        "bias": TensorSpec((3,)),
    }
    assert known.results == {"data_out_0": TensorSpec((1, 3))}
    assert common(mg.node("x")).results == {"data_out_0": TensorSpec((1, 4))}
    assert list(common(mg.node("output")).operands) == ["data_in_0", "data_in_1"]
    split = common(next(node for node in mg.nodes if "split" in node.name))
    assert [spec.shape for spec in split.results.values()] == [(1, 1), (1, 2)]
    assert common(mg.node("getitem_1")).operands["data_in_0"].shape == (1, 2)


def test_members_of_a_list_are_operands_of_their_own():
    model = Layers(lambda m, x, index: torch.cat([x, torch.ops.aten.index(x, [None, index])], -1))
    graph = trace(model, (torch.randn(5, 4), torch.tensor([2, 0])))
    add_common_metadata_analysis_pass(graph)
    assert {name: spec.shape for name, spec in common(graph.node("index_1")).operands.items()} == {
        "data_in_0": (1, 4),
        "data_in_1": (2,),
    }
    assert list(common(graph.node("cat")).operands) == ["data_in_0", "data_in_1"]
    verify_analysis_pass(graph)


def test_common_metadata_reports_what_no_operator_covers(mg):
    unsupported = add_common_metadata_analysis_pass(mg)[1]["unsupported"]
    assert "fc" not in unsupported
    assert any("digamma" in name for name in unsupported)
    name = next(name for name in unsupported if "digamma" in name)
    with pytest.raises(UnsupportedError, match=r"no operator covers aten\.digamma.*torch\.split"):
        mg.call(mg.node(name))


def test_common_metadata_keeps_formats_when_it_runs_again(mg):
    known = common(mg.node("fc"))
    number_format = make_format({"name": "fixed", "width": 6, "frac_width": 2})
    spec = known.results["data_out_0"].with_format(number_format).with_parallelism(1, 3)
    update(mg.node("fc"), common=type(known)("linear", known.operands, {"data_out_0": spec}))
    add_common_metadata_analysis_pass(mg)
    assert common(mg.node("fc")).results["data_out_0"] == spec


def test_calls_hold_constants_attributes_and_formats(mg):
    call = mg.call(mg.node("fc"))
    assert call.operator.name == "linear"
    assert list(call.streams) == ["data_in_0"]
    assert call.constants["weight"].dtype == torch.float64
    assert torch.equal(call.constants["weight"], mg.model.get_parameter("fc.weight").double())
    call = mg.call(mg.node("add"))
    assert call.constants["data_in_1"].item() == 0.5
    assert call.attributes["alpha"] == 1
    assert torch.equal(mg.call(mg.node("mul")).constants["data_in_1"], torch.tensor([1.0, 0, 2]))


def test_software_metadata_sees_every_batch(mg):
    batches = [(torch.full((2, 4), 3.0), "labels"), {"x": torch.tensor([[0.0, -7.0, 0.0, 1.0]])}]
    _, info = add_software_metadata_analysis_pass(mg, {"data": batches})
    assert info == {"batches": 2}
    known = metadata(mg.node("x")).software.ranges["data_out_0"]
    assert (known.minimum, known.maximum) == (-7.0, 3.0)
    assert math.isclose(known.sparsity, 2 / 12)
    product = metadata(mg.node("mul")).software
    assert product.ranges["data_in_1"].sparsity == pytest.approx(1 / 3)
    assert product.ranges["data_in_0"] == metadata(mg.node("fc")).software.ranges["data_out_0"]
    orders = [metadata(node).software.order for node in mg.nodes]
    assert orders == list(range(len(orders)))


def test_software_metadata_refuses_data_that_are_no_inputs(mg):
    with pytest.raises(ConfigError, match="does not hold the inputs of net as tensors: x"):
        add_software_metadata_analysis_pass(mg, {"data": [{"y": torch.zeros(1)}]})
    with pytest.raises(ConfigError, match="no batches"):
        add_software_metadata_analysis_pass(mg, {"data": iter(())})
    with pytest.raises(DataError, match=r"data for x has the shape \(2, 5\); net takes \(N, 4\)"):
        add_software_metadata_analysis_pass(mg, {"data": [torch.zeros(2, 5)]})


def test_counts(mg):
    operators = report_operators_analysis_pass(mg)[1]
    assert operators["operators"]["linear"] == 1
    assert any("digamma" in target for target in operators["unsupported"])
    flops = count_flops_analysis_pass(mg)[1]
    assert flops["nodes"]["fc"] == 2 * 4 * 3
    assert flops["flops"] == sum(flops["nodes"].values())
    parameters = count_parameters_analysis_pass(mg)[1]
    assert (parameters["parameters"], parameters["buffers"]) == (15, 3)
    assert parameters["tensors"] == {"fc.weight": 12, "fc.bias": 3, "scale": 3}


def test_a_graph_as_captured_verifies(mg):
    assert verify_analysis_pass(mg)[1]["edges"] >= 8


@pytest.mark.parametrize("aspect", ["format", "parallelism", "shape", "dtype"])
def test_verify_names_both_ends_of_an_edge(mg, aspect):
    known = common(mg.node("mul"))
    old = known.operands["data_in_0"]
    changed = {
        "format": old.with_format(make_format({"name": "fixed", "width": 5, "frac_width": 1})),
        "parallelism": old.with_parallelism(1, 3),
        "shape": TensorSpec((1, 4)),
        "dtype": TensorSpec(old.shape, "float16"),
    }[aspect]
    operands = {**known.operands, "data_in_0": changed}
    update(mg.node("mul"), common=type(known)(known.operator, operands, known.results))
    with pytest.raises(MaseError, match=rf"{aspect} of fc \(.*but mul\.data_in_0 \(") as error:
        verify_analysis_pass(mg)
    assert len(str(error.value).splitlines()) == 2


def test_verify_finds_recorded_shapes_that_are_not_true(mg):
    known = common(mg.node("output").args[0][0])
    node = mg.node("output").args[0][0]
    wrong = {"data_out_0": TensorSpec((9, 9))}
    update(node, common=type(known)(known.operator, known.operands, wrong))
    with pytest.raises(MaseError, match=r"add\.data_out_0 .* is float32\[1, 3\], but .*\[9, 9\]"):
        verify_analysis_pass(mg)
