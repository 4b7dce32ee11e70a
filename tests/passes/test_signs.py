"""Formats without a sign meet numbers below zero: said, or given a sign, never cut off."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import FormatError
from mase_hw.graph import common, trace
from mase_hw.passes.formats.calibrate import calibrate_analysis_pass

UNSIGNED = {"name": "fixed", "data_in_width": 12, "data_in_signed": False}


def graph():
    torch.manual_seed(0)
    return trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)), torch.randn(30, 4))


@pytest.mark.parametrize("node", ["linear_0", "relu_1"])
def test_negative_inputs_are_refused_by_name(node):
    config = {"by": "name", node: {"config": UNSIGNED}}
    with pytest.raises(FormatError, match=rf"data_in_0 of {node} .*data_in_signed is false"):
        mase_hw.quantize(graph(), config)
    with pytest.raises(FormatError, match=rf"data_in_0 of {node} .*data_in_signed is false"):
        calibrate_analysis_pass(canonicalize(graph()), {"config": config})


def test_results_of_a_rectifier_need_no_sign_and_weights_and_results_get_one():
    mg = graph()
    (x,) = mg.example_inputs
    found = mase_hw.quantize(mg, {"by": "name", "linear_2": {"config": UNSIGNED}})
    specs = common(found.node("linear_2"))
    signs = [item.format.signed for item in (*specs.operands.values(), *specs.results.values())]
    assert signs == [False, True, True, True]
    assert (found(x) - mg(x)).abs().max() < 0.01


def test_a_weight_that_is_said_to_have_no_sign_is_refused():
    entry = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "weight_signed": False}
    with pytest.raises(FormatError, match=r"weight of linear_0 .*weight_signed is false"):
        mase_hw.quantize(graph(), {"linear": {"config": entry}})


def test_integers_with_a_zero_point_hold_numbers_below_it():
    entry = {"name": "scaled_integer", "data_in_width": 8, "data_in_signed": False}
    mg = graph()
    (x,) = mg.example_inputs
    free = {**entry, "data_in_symmetric": False, "weight_symmetric": True}
    assert (mase_hw.quantize(mg, {"linear": {"config": free}})(x) - mg(x)).abs().max() < 0.1
    with pytest.raises(FormatError, match="data_in_signed is false"):
        mase_hw.quantize(mg, {"linear": {"config": {**entry, "data_in_symmetric": True}}})


def test_a_result_ends_at_zero_where_that_is_said_of_it():
    entry = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "data_out_width": 8}
    mg = graph()
    (x,) = mg.example_inputs
    found = mase_hw.quantize(mg, {"linear": {"config": {**entry, "data_out_signed": False}}})
    assert (found(x) >= 0).all()
