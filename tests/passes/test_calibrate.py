"""Calibration, quantisation-aware training and the report of a quantised graph."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError, DataError, FormatError
from mase_hw.formats.fixed import Fixed
from mase_hw.graph import common, metadata, trace
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.formats._observers import OBSERVERS, Sample
from mase_hw.passes.formats.calibrate import calibrate_analysis_pass
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.passes.formats.report_quantization import report_quantization_analysis_pass
from mase_hw.training import Trainer, evaluate


def config(width):
    entry = {"name": "fixed", "data_in_width": width, "weight_width": width, "bias_width": 8}
    return {"by": "type", "default": {"config": entry}}


def small_graph(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return canonicalize(trace(model, torch.randn(32, 6)))


def formats(mg):
    return {
        node.name: [str(spec.format) for spec in common(node).results.values()]
        + [str(spec.format) for spec in common(node).operands.values()]
        for node in mg.nodes
        if node.op == "call_function"
    }


def sample(values):
    found = Sample()
    found.add(values)
    return found


def fit(width):
    return lambda low, high: Fixed.fit(low, high, width=width)


def test_minmax_resolves_to_what_the_open_configuration_gives():
    mg = small_graph()
    _, info = calibrate_analysis_pass(mg, {"config": config(5)})
    opened, _ = quantize_transform_pass(mg, config(5))
    resolved, _ = quantize_transform_pass(mg, info["config"])
    assert formats(opened) == formats(resolved)


def test_a_resolved_configuration_does_not_depend_on_data():
    mg = small_graph()
    _, info = calibrate_analysis_pass(mg, {"config": config(4), "data": [100 * torch.randn(8, 6)]})
    first, _ = quantize_transform_pass(mg, info["config"])
    again, _ = calibrate_analysis_pass(mg, {"config": info["config"], "data": [torch.ones(1, 6)]})
    second, _ = quantize_transform_pass(again, info["config"])
    assert formats(first) == formats(second)
    assert common(first.node("linear_0")).operands["data_in_0"].format.frac_width < 0


@given(width=st.integers(3, 10), seed=st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_mse_has_the_least_error_of_all_fractions(width, seed):
    values = torch.randn(400, generator=torch.Generator().manual_seed(seed)).double() ** 3
    chosen = OBSERVERS["mse"](sample(values), fit(width), 99.9)
    start = fit(width)(float(values.min()), float(values.max())).frac_width

    def error(number_format):
        return float((number_format.round_values(values) - values).square().mean())

    best = min(error(Fixed(width, start + extra)) for extra in range(5))
    assert error(chosen) == best


def test_an_outlier_widens_minmax_and_not_the_others():
    values = torch.cat(
        [
            torch.randn(20000, generator=torch.Generator().manual_seed(0)).double(),
            torch.tensor([30.0]),
        ]
    )
    chosen = {name: OBSERVERS[name](sample(values), fit(5), 99.9) for name in OBSERVERS}
    assert chosen["minmax"].frac_width == -1
    for name in ("percentile", "mse", "entropy"):
        assert chosen[name].frac_width > -1, name


@pytest.mark.parametrize("observer", OBSERVERS)
def test_every_channel_of_a_weight_is_calibrated_by_itself(observer):
    mg = small_graph()
    with torch.no_grad():
        mg.model.get_parameter("0.weight").mul_(torch.logspace(-3, 3, 8)[:, None])
    entry = {"name": "scaled_integer", "data_in_width": 8, "weight_width": 4}
    given = {"config": {"default": {"config": entry | {"weight_channel_axis": 0}}}}
    _, info = calibrate_analysis_pass(mg, given | {"weight_observer": observer})
    quantized, _ = quantize_transform_pass(mg, info["config"])
    found = common(quantized.node("linear_0")).operands["weight"].format
    assert len(found.scale) == 8
    for channel, row in enumerate(mg.model.get_parameter("0.weight").detach()):
        one = {"config": {"default": {"config": entry}}, "weight_observer": observer}
        single = nn.Sequential(nn.Linear(6, 1))
        with torch.no_grad():
            single[0].weight.copy_(row[None])
        _, other = calibrate_analysis_pass(canonicalize(trace(single, torch.randn(4, 6))), one)
        assert found.scale[channel] == other["config"]["linear_0"]["config"]["weight_scale"]


@pytest.mark.parametrize("name", ["ternary", "binary_scaling", "binary_residual"])
def test_a_scale_that_follows_the_values_is_that_of_all_of_them(name):
    mg = small_graph()
    given = {"by": "type", "linear": {"config": {"name": "fixed", "weight_name": name}}}
    _, info = calibrate_analysis_pass(mg, {"config": given})
    opened, _ = quantize_transform_pass(mg, given)
    resolved, _ = quantize_transform_pass(mg, info["config"])
    assert formats(opened) == formats(resolved)
    weight = common(resolved.node("linear_0")).operands["weight"].format
    assert weight == common(opened.node("linear_0")).operands["weight"].format
    assert weight.scale is not None


def test_bad_calibration_is_refused():
    mg = small_graph()
    with pytest.raises(ConfigError, match="did you mean minmax"):
        calibrate_analysis_pass(mg, {"config": config(4), "observer": "minmx"})
    with pytest.raises(ConfigError, match="percentile is 0"):
        calibrate_analysis_pass(mg, {"config": config(4), "percentile": 0})
    for data in ([], [torch.zeros(0, 6)]):
        with pytest.raises(DataError, match="empty"):
            calibrate_analysis_pass(mg, {"config": config(4), "data": data})


def test_report_adds_up():
    mg, _ = quantize_transform_pass(small_graph(), config(4))
    _, info = report_quantization_analysis_pass(mg)
    layers = {layer["name"]: layer for layer in info["layers"]}
    assert set(layers) == {"linear_0", "relu_1", "linear_2"}
    weights, biases = 6 * 8 + 8 * 3, 8 + 3
    assert info["memory_bits"] == 4 * weights + 8 * biases
    assert info["average_weight_bits"] == pytest.approx(info["memory_bits"] / (weights + biases))
    assert info["memory_density"] == pytest.approx(32 / info["average_weight_bits"])
    assert info["average_activation_bits"] == 4
    assert layers["relu_1"]["weight_bits"] is None
    assert all(math.isfinite(layer["sqnr_db"]) for layer in layers.values())


def test_more_bits_give_more_signal():
    found = []
    for width in (4, 8, 12):
        entry = config(width)["default"]["config"] | {"bias_width": 16, "bias_frac_width": 14}
        mg, _ = quantize_transform_pass(small_graph(), {"default": {"config": entry}})
        _, info = report_quantization_analysis_pass(mg)
        found.append([layer["sensitivity_db"] for layer in info["layers"]])
    for narrow, wide in itertools.pairwise(found):
        assert all(high > low + 12 for low, high in zip(narrow, wide, strict=True))


def blobs(samples, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % 3
    centers = torch.tensor([[1.0, 0, 0, 1, 0, 0], [0, 1.0, 0, 0, 1, 0], [0, 0, 1.0, 0, 0, 1]])
    return centers[labels] + 0.3 * torch.randn(samples, 6, generator=generator), labels


def test_quantization_aware_training_trains_the_graph():
    inputs, labels = blobs(300)
    mg, _ = quantize_transform_pass(small_graph(), config(3))
    model = mg
    before = evaluate(model, inputs, labels)
    Trainer(epochs=20, learning_rate=1e-2).fit(model, inputs, labels)
    after = evaluate(mg, inputs, labels)
    assert before < 0.7
    assert after > 0.9


class Poles(nn.Module):
    """What it computes at zero and below is infinite, or not a number."""

    def forward(self, x):
        return (1 / x - 1, torch.log(x) + 1, x.rsqrt() * torch.sqrt(x))


def poles_graph():
    values = torch.linspace(-3, 3, 49).reshape(7, 7)
    assert bool((values == 0).any())
    return canonicalize(trace(Poles(), values)), values


def test_ranges_are_those_of_finite_values():
    mg, _ = poles_graph()
    mg, _ = add_software_metadata_analysis_pass(mg)
    ranges = {node.name: metadata(node).software.ranges for node in mg.nodes}
    assert ranges["log"]["data_out_0"].maximum == pytest.approx(math.log(3))
    assert ranges["log"]["data_out_0"].minimum == pytest.approx(math.log(1 / 8))
    assert ranges["sub"]["data_in_0"].maximum == pytest.approx(8)
    opened, _ = quantize_transform_pass(mg, config(8))
    log = next(node for node in opened.nodes if node.name == "log")
    assert common(log).results["data_out_0"].format.frac_width == 5
    _, report = report_quantization_analysis_pass(opened)
    assert all(layer["sqnr_db"] > 10 for layer in report["layers"])


@pytest.mark.parametrize("observer", OBSERVERS)
def test_calibration_survives_poles(observer):
    mg, values = poles_graph()
    _, info = calibrate_analysis_pass(mg, {"config": config(8), "observer": observer})
    quantized, _ = quantize_transform_pass(mg, info["config"])
    found = quantized.copy().double()(values.double())
    assert all(bool(result.isfinite().all()) for result in found)


def test_calibration_refuses_inputs_that_are_not_finite():
    mg, values = poles_graph()
    for hole, name in ((math.nan, "NaN, first at"), (math.inf, "infinities")):
        holes = values.clone()
        holes[1, 2] = hole
        with pytest.raises(DataError, match=f"data for x holds {name}"):
            calibrate_analysis_pass(mg, {"config": config(8), "data": [holes]})


def test_a_result_without_any_finite_value_is_refused():
    mg, _ = poles_graph()
    nothing = torch.full((2, 7), -1.0)
    with pytest.raises(FormatError, match=r"log .*none of its values .* is a finite number"):
        _, _ = calibrate_analysis_pass(mg, {"config": log_alone(), "data": [nothing]})
    mg, _ = add_software_metadata_analysis_pass(mg, {"data": [nothing]})
    with pytest.raises(FormatError, match="not all finite numbers"):
        quantize_transform_pass(mg, log_alone())


def log_alone():
    entry = {"name": "fixed", "data_in_width": 8, "data_out_width": 8}
    return {"by": "name", "default": {"config": {"name": None}}, "log": {"config": entry}}
