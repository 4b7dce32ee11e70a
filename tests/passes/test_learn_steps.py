"""Learned steps: their gradient, what they share, and the configuration that they leave."""

import math

import pytest
import torch
from torch import nn

from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError
from mase_hw.formats import make_format
from mase_hw.graph import common, trace
from mase_hw.passes.compression.learn_steps import GAIN, LearnedStepModel, _Rounding
from mase_hw.passes.formats.calibrate import calibrate_analysis_pass
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.training import Trainer, evaluate

FORMATS = [
    {"name": "fixed", "width": 4, "frac_width": 2},
    {"name": "scaled_integer", "width": 4, "scale": 0.3},
    {"name": "scaled_integer", "width": 4, "scale": 0.3, "symmetric": False, "zero_point": 2},
]


def quantized(entry, outlier=1.0):
    """A classifier of three classes in four bits, whose example inputs hold one large value."""
    torch.manual_seed(0)
    inputs, labels = blobs(300)
    examples = inputs[:32].clone()
    examples[0, 0] = outlier
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    plain = canonicalize(trace(model, examples, name="tiny"))
    _, info = calibrate_analysis_pass(plain, {"config": {"default": {"config": entry}}})
    mg, _ = quantize_transform_pass(plain, info["config"])
    return plain, mg, info["config"], inputs, labels


def blobs(samples):
    labels = torch.arange(samples) % 3
    generator = torch.Generator().manual_seed(1)
    return nn.functional.one_hot(labels, 6) + 0.3 * torch.randn(
        samples, 6, generator=generator
    ), labels


@pytest.mark.parametrize("fields", FORMATS)
def test_the_gradient_is_that_of_learned_step_size(fields):
    """d Q / d s = Q / s - v / s inside, and the end of the range in steps outside."""
    number_format = make_format(fields)
    values = torch.linspace(-6, 6, 41, dtype=torch.float64, requires_grad=True)
    octaves = torch.zeros((), dtype=torch.float64, requires_grad=True)
    weights = torch.linspace(1, 2, 41, dtype=torch.float64)
    (weights * _Rounding.apply(values, octaves, number_format)).sum().backward()
    step = 0.25 if fields["name"] == "fixed" else 0.3
    rounded = number_format.round_values(values.detach())
    inside = number_format.in_range(values.detach())
    assert 0 < inside.sum() < 41
    slope = torch.where(inside, (rounded - values.detach()) / step, rounded / step)
    assert octaves.grad == pytest.approx(math.log(2) * step * float((weights * slope).sum()))
    assert torch.equal(values.grad, weights * inside)


@pytest.mark.parametrize("fields", FORMATS)
@pytest.mark.parametrize("octaves", [-2, 3])
def test_a_scaled_format_is_the_same_set_at_another_scale(fields, octaves):
    number_format = make_format(fields)
    values = torch.randn(200, dtype=torch.float64)
    moved = number_format.scaled(float(octaves))
    expected = 2.0**octaves * number_format.round_values(values / 2.0**octaves)
    assert torch.allclose(moved.round_values(values), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["fixed", "scaled_integer"])
def test_steps_shrink_where_an_outlier_set_them(name):
    entry = {"name": name, "data_in_width": 3, "weight_width": 3, "bias_width": 8}
    plain, mg, config, inputs, labels = quantized(entry, outlier=40.0)
    model = LearnedStepModel(mg, config)
    before = evaluate(model, inputs, labels)
    assert model.config() == config
    Trainer(epochs=30, learning_rate=1e-2).fit(model, inputs, labels)
    after = evaluate(model, inputs, labels)
    assert before < 0.5
    assert after > 0.9
    learned = model.config()
    again, _ = quantize_transform_pass(plain, learned)
    again.model.load_state_dict(mg.model.state_dict())
    with torch.no_grad():
        assert torch.equal(LearnedStepModel(again, learned)(inputs), model(inputs))
    first = [common(item.node("linear_0")).operands["data_in_0"].format for item in (mg, again)]
    octaves = GAIN * model.moves[0].item()
    assert first[1] == first[0].scaled(octaves)
    assert octaves < -1


def test_streams_that_meet_share_a_step():
    entry = {"name": "fixed", "data_in_width": 4, "weight_width": 4, "bias_width": 8}
    _, mg, config, *_ = quantized(entry)
    model = LearnedStepModel(mg, config)
    # Input, two hidden streams, the output, two weights and two biases.
    assert len(model.moves) == 8
    assert model._numbers["linear_0", "data_out_0"] == model._numbers["relu_1", "data_in_0"]
    assert model._numbers["relu_1", "data_out_0"] == model._numbers["linear_2", "data_in_0"]


def test_formats_without_a_scale_of_their_own_are_refused():
    _, mg, config, _, _ = quantized({"name": "mxint"})
    with pytest.raises(ConfigError, match="no format of the graph has a scale"):
        LearnedStepModel(mg, config)
