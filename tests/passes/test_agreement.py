"""What is measured against the float model is what torch says, and nothing passes unmeasured."""

import math

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.warnings import UNMEASURED, check_sqnr, sqnr_problems, warnings
from mase_hw.errors import EmissionError
from mase_hw.graph.agreement import tensor_db
from mase_hw.graph.metadata import metadata, update
from tests.shared_formats import configuration, decibels


def graph(scale=1.0, config=None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).eval()
    with torch.no_grad():
        model[0].weight.mul_(scale)
    x = torch.randn(64, 6)
    return model, x, mase_hw.quantize(mase_hw.trace(model, x), config)


def output(mg):
    (found,) = (node for node in mg.nodes if node.op == "output")
    return found


@pytest.mark.parametrize("width", [8, 16])
def test_decibels_are_those_of_the_model_that_was_given(width):
    model, x, mg = graph(config=configuration(width))
    (found,) = metadata(output(mg)).agreement.results.values()
    assert found.tensor_db == pytest.approx(decibels(model(x), mg(x)), abs=0.1)


def test_a_finite_number_that_becomes_none_is_all_lost():
    exact = torch.tensor([1.0, 2.0])
    for lost in (math.inf, -math.inf, math.nan):
        assert tensor_db(exact, torch.tensor([1.0, lost])) == -math.inf
    assert tensor_db(exact, exact) == math.inf


def test_an_output_below_what_is_asked_for_is_refused():
    _, _, mg = graph(config=configuration(8))
    check_sqnr(mg, None)
    check_sqnr(mg, 10)
    with pytest.raises(EmissionError, match=r"agrees with the float model to .* dB on 64 examples"):
        check_sqnr(mg, 90)


def test_what_was_not_measured_is_said_and_meets_no_demand():
    _, _, mg = graph(config=configuration(16))
    assert warnings(mg) == []
    update(output(mg), agreement=None)
    assert [note.text for note in warnings(mg)] == [UNMEASURED]
    assert sqnr_problems(mg, None) == []
    with pytest.raises(EmissionError, match="were not compared"):
        check_sqnr(mg, 1)


def test_a_format_that_clips_is_named_with_its_line():
    fields = {"data_in_width": 8, "data_in_frac_width": 7, "weight_width": 8, "bias_width": 8}
    config = {"by": "type", "default": {"config": {"name": "fixed", **fields}}}
    _, _, mg = graph(scale=8.0, config=config)
    found = warnings(mg)
    assert found
    assert all(note.node in {node.name for node in mg.nodes} for note in found)
