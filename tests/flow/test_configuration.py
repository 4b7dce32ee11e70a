"""Number formats from a configuration: what an entry selects, and what follows from it."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.emit.preflight import preflight
from mase_hw.errors import ConfigError
from mase_hw.formats.fixed import Fixed
from mase_hw.graph import MaseGraph, common, trace
from mase_hw.graph.reference import IntegerReference
from mase_hw.passes.configuration import FLOAT
from mase_hw.passes.formats.calibrate import calibrate_analysis_pass
from mase_hw.passes.formats.quantize import quantize_transform_pass
from tests.flow.perceptrons import seeded

ISSUE_SHAPE = {
    "by": "type",
    "default": {"config": {"name": None}},
    "linear": {"config": {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4,
        "weight_width": 8, "weight_frac_width": 4, "bias_width": 8, "bias_frac_width": 4}},
}  # fmt: skip


def entry(width: int, **fields: Any) -> dict[str, Any]:
    return {"config": {"name": "fixed", "data_in_width": width, "data_in_frac_width": 2, **fields}}


def graph(config: dict[str, Any]) -> MaseGraph:
    model, inputs = seeded(8, 12, 6, 5)
    return quantize(trace(model, inputs), config)


def operand(mg: MaseGraph, node: str, name: str = "data_in_0") -> Fixed:
    found = common(mg.node(node)).operands[name].format
    assert isinstance(found, Fixed)
    return found


def result(mg: MaseGraph, node: str) -> Fixed:
    found = common(mg.node(node)).results["data_out_0"].format
    assert isinstance(found, Fixed)
    return found


def inserted(mg: MaseGraph) -> list[str]:
    return [node.name for node in mg.nodes if node.name.endswith("_cast")]


def test_the_known_shape_of_a_configuration():
    before = copy.deepcopy(ISSUE_SHAPE)
    mg = graph(ISSUE_SHAPE)
    assert before == ISSUE_SHAPE
    for node in ("linear_0", "linear_2", "linear_4"):
        for name in ("data_in_0", "weight", "bias"):
            assert operand(mg, node, name) == Fixed(8, 4)
    # The rectifiers have no entry: they keep the format of what they are given.
    assert result(mg, "relu_1") == operand(mg, "relu_1") == Fixed(8, 4)
    assert preflight(mg) == []


@pytest.mark.parametrize("by", [["type", "name", "regex_name"], ["regex_name", "type", "name"]])
def test_the_most_specific_selector_wins(by):
    mg = graph(
        {
            "by": by,
            "default": entry(5),
            "linear": entry(6),
            "linear_[24]": entry(7),
            "linear_4": entry(8),
        }
    )
    widths = [operand(mg, f"linear_{n}").width for n in (0, 2, 4)]
    assert (widths, operand(mg, "relu_1").width) == ([6, 7, 8], 5)


def test_without_data_out_a_result_is_what_its_consumer_takes():
    mg = graph({"by": "name", "default": entry(8), "linear_2": entry(6), "linear_4": entry(10)})
    assert result(mg, "relu_1") == operand(mg, "linear_2") == Fixed(6, 2)
    assert result(mg, "relu_3") == operand(mg, "linear_4") == Fixed(10, 2)
    assert result(mg, "linear_4") == Fixed(10, 2)
    assert common(mg.inputs[0]).results["data_out_0"].format == operand(mg, "linear_0")
    assert inserted(mg) == []


def test_casts_where_the_two_ends_differ():
    wide = entry(8, data_out_width=12, data_out_frac_width=6)
    mg = graph({"by": "name", "default": entry(8), "linear_2": wide})
    assert result(mg, "linear_2") == Fixed(12, 6)
    assert inserted(mg) == ["linear_2_cast"]
    assert operand(mg, "linear_2_cast") == Fixed(12, 6)
    assert result(mg, "linear_2_cast") == operand(mg, "relu_3") == Fixed(8, 2)
    codes = torch.randint(-128, 128, (50, 1, 8), generator=torch.Generator().manual_seed(0))
    expected = IntegerReference(mg)([codes])["linear_4"].reshape(50, 5)
    with torch.no_grad():
        found = mg.double()(codes.reshape(50, 8).double() / 4)
    assert torch.equal(found, result(mg, "linear_4").decode(expected))


def test_an_operator_without_an_entry_is_refused_and_not_left_in_float():
    mg = trace(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()).eval(), torch.randn(2, 4))
    problems = preflight(quantize(mg, ISSUE_SHAPE))
    assert {problem.node for problem in problems} == {"sigmoid_1"}
    assert "configure one for sigmoid" in problems[0].reason


def test_the_configuration_of_one_operand_is_the_more_specific():
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    mg = trace(Sum(), (torch.randn(2, 3), torch.randn(2, 3)))
    mg = quantize(mg, {"default": entry(8, data_in_1_width=5)})
    assert (operand(mg, "add").width, operand(mg, "add", "data_in_1").width) == (8, 5)


EIGHT = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}


@pytest.mark.parametrize("config", [None, {}, {"by": "name"}, {"by": ["name", "type"]}])
def test_a_configuration_without_keys_is_none(config):
    mg = canonicalize(trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.randn(5, 4)))
    wanted = quantize(mg, {"default": {"config": EIGHT}})
    assert str(quantize(mg, config)) == str(wanted)
    arguments = {} if config is None else {"config": config}
    resolved = calibrate_analysis_pass(mg, arguments)[1]["config"]
    assert str(quantize(mg, resolved)) == str(wanted)
    assert str(quantize_transform_pass(mg, config)[0]) == str(wanted)


@pytest.mark.parametrize("default", [None, "none"])
def test_a_configuration_that_selects_nothing_is_refused(default):
    mg = trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.randn(5, 4))
    config = {"default": {"config": {"name": default}}} if default else {}
    config |= {"conv2d": {"config": EIGHT}}
    with pytest.raises(ConfigError, match=r"conv2d selects nothing in .* by type: linear, relu"):
        quantize(mg, config)
    quantize(mg, {**config, "linear": {"config": EIGHT}})
    assert not quantize(mg, FLOAT).has_formats


def test_fields_without_a_format_are_refused():
    mg = trace(nn.Sequential(nn.Linear(4, 3)), torch.randn(5, 4))
    with pytest.raises(ConfigError, match="data_in_width is given, but no name"):
        quantize(mg, {"linear": {"config": {"data_in_width": 8}}})
