"""Quantised layers: every pair of a layer and a format is a class, pickles, and learns."""

import pickle
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mase_hw.nn as qnn
from mase_hw.data import dataset
from mase_hw.errors import ConfigError, DataError
from mase_hw.formats import formats

KNOWN = [
    "LinearInteger", "LinearFixed", "LinearMinifloatDenorm", "LinearMinifloatIEEE", "LinearLog",
    "LinearBlockFP", "LinearBlockMinifloat", "LinearBlockLog", "LinearBinary",
    "LinearBinaryScaling", "LinearBinaryResidualSign", "LinearTernary", "LinearMXInt",
    "Conv1dInteger", "Conv2dInteger", "Conv2dMXInt", "Conv1dLog", "Conv2dBinary",
]  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_the_names_that_users_know_are_there(name):
    cls = getattr(qnn, name)
    assert cls.__name__ == name
    assert name in dir(qnn)
    assert getattr(qnn, name) is cls
    layer = cls(8, 4, 3) if name.startswith("Conv") else cls(8, 4)
    again = pickle.loads(pickle.dumps(layer))
    assert type(again) is cls
    values = torch.randn(2, 8, *[5] * {"L": 0, "1": 1, "2": 2}[name[4] if name[0] == "C" else "L"])
    assert torch.equal(again(values), layer(values))


def test_every_format_has_every_layer():
    names = dir(qnn)
    for base in qnn.BASES:
        for name in formats():
            assert qnn.layer_class(base, name).__name__ in names


def test_an_unknown_name_offers_the_nearest():
    with pytest.raises(AttributeError, match="LinearMXInt"):
        _ = qnn.LinearMXInteger
    with pytest.raises(ConfigError, match="data_in_width"):
        qnn.LinearInteger(4, 4, config={"data_in_widht": 8})


def test_operands_are_rounded_to_their_formats():
    config = {"data_in_width": 6, "data_in_frac_width": 3, "weight_width": 4, "bias_width": 5}
    layer = qnn.LinearInteger(8, 4, config=config)
    values = torch.randn(3, 8)
    expected = F.linear(
        layer.data_in_format.round_values(values),
        layer.weight_format.round_values(layer.weight),
        layer.bias_format.round_values(layer.bias),
    )
    assert torch.equal(layer(values), expected)
    assert (layer.data_in_format.width, layer.data_in_format.frac_width) == (6, 3)
    assert layer.weight_format.width == 4
    mixed = qnn.LinearInteger(8, 4, config={"weight_name": "log", "weight_width": 4})
    assert mixed.weight_format.name == "log"


def test_a_float_layer_is_taken_over():
    layer = nn.Conv2d(6, 4, 3, stride=2, padding=1, bias=False)
    quantized = qnn.Conv2dMXInt.from_float(layer, {"weight_width": 4, "weight_block_size": 6})
    assert quantized.weight is layer.weight
    assert (quantized.weight_format.width, quantized.weight_format.axis) == (4, 1)
    values = torch.randn(1, 6, 8, 8)
    assert quantized(values).shape == layer(values).shape
    with pytest.raises(ConfigError, match="Linear"):
        qnn.LinearMXInt.from_float(layer)


def test_ranges_that_nobody_gave_are_the_datas():
    layer = qnn.LinearInteger(4, 2, config={"data_in_width": 8}).eval()
    assert layer.data_in_format is None
    large = torch.full((1, 4), 100.0)
    weight = layer.weight_format.round_values(layer.weight)
    assert torch.equal(layer(large), F.linear(large, weight, layer.bias))
    assert layer.data_in_format.frac_width == 0
    layer(10 * large)  # the range stays while the layer is evaluated
    assert layer.data_in_format.frac_width == 0
    layer.train()(10 * large)
    assert layer.data_in_format.frac_width == -3
    layer(large / 100)
    assert layer.data_in_format.frac_width == -3
    with pytest.raises(DataError, match="finite"):
        layer(large * float("inf"))
    assert qnn.LinearMXInt(4, 2).data_in_format is not None
    assert qnn.LinearInteger(4, 2, config={"data_in_frac_width": 3}).data_in_format is not None


def test_calibration_takes_every_batch_and_leaves_the_mode():
    model = nn.Sequential(qnn.LinearInteger(4, 4), nn.Dropout(), qnn.LinearTernary(4, 2))
    model(torch.full((1, 4), 1000.0))
    batches = [torch.ones(2, 4), torch.full((2, 4), 5.0), torch.ones(2, 4)]
    assert qnn.calibrate(model, batches) is model
    assert model.training
    assert model[0].data_in_format.frac_width == 4
    with pytest.raises(DataError, match="at least one batch"):
        qnn.calibrate(model, [])


def test_a_state_holds_formats_and_a_float_state_fits_them_anew():
    config = {"data_in_width": 6, "weight_width": 4, "bias_width": 4}
    layer = qnn.LinearInteger(4, 2, config=config)
    layer(torch.randn(8, 4) * 40)
    layer.weight.data *= 8.0  # the format is still that of the first weights
    again = qnn.LinearInteger(4, 2, config=config).eval()
    again.load_state_dict(layer.state_dict())
    values = torch.randn(8, 4) * 40
    assert torch.equal(again(values), layer.eval()(values))
    other = qnn.LinearInteger(4, 2, config={**config, "weight_width": 8})
    other.load_state_dict(layer.state_dict())
    assert other.weight_format.width == 8
    plain = nn.Linear(4, 2)
    plain.weight.data *= 64.0
    again.load_state_dict(plain.state_dict())
    assert again.weight_format.in_range(plain.weight).all()


def test_padding_that_repeats_the_image_is_rounded_with_it():
    config = {"data_in_width": 8, "data_in_frac_width": 4, "weight_width": 6}
    layer = qnn.Conv2dInteger(2, 3, 3, padding=1, padding_mode="circular", config=config)
    plain = nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular")
    plain.weight.data = layer.weight_format.round_values(layer.weight.data)
    plain.bias.data = layer.bias.data
    values = torch.randn(2, 2, 5, 5)
    assert torch.equal(layer(values), plain(layer.data_in_format.round_values(values)))


@cache
def digits():
    return dataset("digits").load()


def learn(family, config, steps=40):
    """Return the accuracy on digits before and after training two layers in one format."""
    split = digits()
    torch.manual_seed(0)
    inputs, labels = split.train_inputs[:1024], split.train_labels[:1024]
    center, spread = inputs.mean(), inputs.std()
    layer = qnn.layer_class("Linear", family)
    model = nn.Sequential(
        layer(64, 64, config=config), nn.BatchNorm1d(64), nn.Hardtanh(),
        layer(64, 10, config=config), nn.BatchNorm1d(10),
    )  # fmt: skip
    for part in (model[0], model[3]):
        # From -1 to 1: formats without a scale hold such weights, and normalisation follows.
        part.weight.data *= 8.0
        part.refit()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def accuracy():
        model.eval()
        scores = model((split.test_inputs - center) / spread)
        model.train()
        return float((scores.argmax(1) == split.test_labels).float().mean())

    before = accuracy()
    for step in range(steps):
        part = slice(256 * (step % 4), 256 * (step % 4 + 1))
        optimizer.zero_grad()
        F.cross_entropy(model((inputs[part] - center) / spread), labels[part]).backward()
        optimizer.step()
    return before, accuracy()


LEARNERS = [(name, {}) for name in sorted(formats())] + [
    ("binary", {"data_in_bipolar": False, "weight_bipolar": False}),
    ("binary", {"weight_stochastic": True}),
    ("binary", {"data_in_bipolar": False}),
    ("mxint", {"data_in_width": 4, "weight_width": 4}),
    ("log", {"data_in_width": 4, "weight_width": 4}),
    ("minifloat_ieee", {"data_in_width": 6, "data_in_exponent_width": 3}),
]


@pytest.mark.first("fixed-{}", "log-{}", "mxint-{}", "ternary-{}")
@pytest.mark.parametrize(("family", "config"), LEARNERS, ids=str)
def test_every_format_learns(family, config):
    before, after = learn(family, config, steps=160 if "stochastic" in str(config) else 40)
    assert before < 0.35
    assert after > (0.6 if family.startswith(("binary", "ternary")) else 0.85)
